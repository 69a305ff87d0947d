// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// logOf is what f logs in a format, at noon.
func logOf(t *testing.T, format string, f func(l *Log)) string {
	t.Helper()
	var b bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		cfg := defaultConfig()
		cfg.LogFormat = format
		l := cfg.OpenLog(&b)
		f(l)
		l.Flush()
	})
	return b.String()
}

// usr1 is strsignal's text for SIGUSR1.
var usr1 = map[string]string{"linux": "User defined signal 1", "darwin": "User defined signal 1: 30"}[runtime.GOOS]

// TestFormats: the same events in each form.
func TestFormats(t *testing.T) {
	openError := &os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}
	for _, c := range []struct {
		name              string
		log               func(l *slog.Logger)
		plain, text, json string
	}{
		{
			"one of socket_vmnet's", func(l *slog.Logger) { l.With("client", 3).Info("accepted a connection", "fd", 7) },
			`INFO | Accepted a connection (fd 7)`,
			`level=INFO msg="accepted a connection" client=3 fd=7`,
			`"level":"INFO","msg":"accepted a connection","client":3,"fd":7}`,
		},
		{
			"the end of a client", func(l *slog.Logger) {
				l.Warn("client gone", "reason", io.EOF, "duration", 1500*time.Millisecond, "peer_uid", uint32(501), "bytes_to_net", uint64(1<<60))
			},
			`WARN | client gone reason=EOF duration=1.5s peer_uid=501 bytes_to_net=1152921504606846976`,
			`level=WARN msg="client gone" reason=EOF duration=1.5 peer_uid=501 bytes_to_net=1152921504606846976`,
			`"level":"WARN","msg":"client gone","reason":"EOF","duration":1.5,"peer_uid":501,"bytes_to_net":1152921504606846976}`,
		},
		{
			"an error of the system", func(l *slog.Logger) { l.Error("state is not kept", "error", fmt.Errorf("load: %w", openError)) },
			`ERROR| state is not kept error="load: open /x: Permission denied"`,
			`level=ERROR msg="state is not kept" error="load: open /x: Permission denied"`,
			`"level":"ERROR","msg":"state is not kept","error":"load: open /x: Permission denied"}`,
		},
		{
			"addresses", func(l *slog.Logger) {
				l.Info("x", "mac", net.HardwareAddr{2, 0, 0, 0, 0, 1}, "ip", netip.MustParseAddr("10.0.0.1"), "mode", network.ModeHost)
			},
			`INFO | x mac=02:00:00:00:00:01 ip=10.0.0.1 mode=host`,
			`level=INFO msg=x mac=02:00:00:00:00:01 ip=10.0.0.1 mode=host`,
			`"level":"INFO","msg":"x","mac":"02:00:00:00:00:01","ip":"10.0.0.1","mode":"host"}`,
		},
		{
			"a signal, a list and a time", func(l *slog.Logger) {
				l.Info("x", "signal", syscall.SIGUSR1, "names", []string{"a", "b"}, "at", time.Unix(0, 1500000).In(time.FixedZone("", 3600)))
			},
			`INFO | x signal="` + usr1 + `" names="[a b]" at=1970-01-01T01:00:00.001+01:00`,
			`level=INFO msg=x signal="` + usr1 + `" names="[a b]" at=1970-01-01T00:00:00.001Z`,
			`"level":"INFO","msg":"x","signal":"` + usr1 + `","names":["a","b"],"at":"1970-01-01T00:00:00.001Z"}`,
		},
		{
			"what a guest made up", func(l *slog.Logger) { l.Info("x", "hostname", "a\n\x1b[31m\"\xff") },
			`INFO | x hostname="a\n\x1b[31m\"\xff"`,
			`level=INFO msg=x hostname="a\n\x1b[31m\"\xff"`,
			`"level":"INFO","msg":"x","hostname":"a\n\u001b[31m\"\ufffd"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := func(l *Log) { c.log(l.Logger) }
			assert.Equal(t, c.plain+"\n", logOf(t, logPlain, f))
			assert.Equal(t, "time=2000-01-01T00:00:00.000Z "+c.text+"\n", logOf(t, logText, f))
			got := logOf(t, logJSON, f)
			assert.Equal(t, `{"time":"2000-01-01T00:00:00.000Z",`+c.json+"\n", got)
			assert.True(t, json.Valid([]byte(got)))
		})
	}
}

// TestLevels: they change while the log is used, for its loggers of before too.
func TestLevels(t *testing.T) {
	var b bytes.Buffer
	cfg := defaultConfig()
	l := cfg.OpenLog(&b)
	sub := l.With("client", 1)
	all := func() {
		sub.Debug("d")
		sub.Info("i")
		sub.Warn("w")
		sub.Error("e")
	}
	for _, c := range []struct{ level, want string }{
		{"", "IWE"}, {"debug", "DIWE"}, {"warn", "WE"}, {"error", "E"}, {"info", "IWE"},
	} {
		b.Reset()
		if c.level != "" {
			require.NoError(t, l.SetLevel(c.level))
			assert.Equal(t, c.level, l.Level())
		}
		all()
		got := ""
		for line := range strings.Lines(b.String()) {
			got += line[:1]
		}
		assert.Equal(t, c.want, got, c.level)
	}
	require.EqualError(t, l.SetLevel("loud\n"), `invalid level "loud\n": use debug, info, warn or error`)
	assert.Equal(t, "info", l.Level())
	assert.Equal(t, "info", (*Log)(nil).Level())
	(*Log)(nil).Flush()
}

// folds logs into a plain log, in a bubble whose time f makes pass.
func folds(t *testing.T, f func(l *Log)) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(logOf(t, logPlain, f), "\n"), "\n")
}

func TestRepeats(t *testing.T) {
	many := func(n int, f func(i int)) {
		for i := range n {
			f(i)
		}
	}
	for _, c := range []struct {
		name string
		log  func(l *Log)
		want []string // lines, and how many in a row
	}{
		{
			"told at the end", func(l *Log) { many(9, func(i int) { l.Warn("a", "i", i/5) }) },
			[]string{"5 WARN | a i=0", "1 WARN | a ... again i=1 not_logged=4"},
		},
		{
			"told when the time is over", func(l *Log) {
				many(9, func(int) { l.Info("a") })
				time.Sleep(foldTime + time.Second)
				l.Info("b")
			}, []string{"5 INFO | a", "1 INFO | a ... again not_logged=4", "1 INFO | b"},
		},
		{
			"anew after a while", func(l *Log) {
				many(9, func(int) { l.Info("a") })
				time.Sleep(foldTime)
				many(6, func(int) { l.Info("a") })
			}, []string{"5 INFO | a", "1 INFO | a ... again not_logged=4", "5 INFO | a", "1 INFO | a ... again not_logged=1"},
		},
		{
			"levels and messages differ", func(l *Log) {
				many(5, func(int) { l.Info("a") })
				many(5, func(int) { l.Warn("a") })
				many(5, func(int) { l.Info("b") })
			}, []string{"5 INFO | a", "5 WARN | a", "5 INFO | b"},
		},
		{
			"clients differ", func(l *Log) {
				for id := range 3 {
					time.Sleep(time.Millisecond)
					c := l.With("client", id)
					many(6, func(int) { c.Info("a") })
				}
			}, []string{
				"5 INFO | a client=0", "5 INFO | a client=1", "5 INFO | a client=2",
				"1 INFO | a ... again client=0 not_logged=1", "1 INFO | a ... again client=1 not_logged=1", "1 INFO | a ... again client=2 not_logged=1",
			},
		},
		{
			"so do guests", func(l *Log) { many(20, func(i int) { l.Info("a", "mac", fmt.Sprint(i)) }) },
			func() (w []string) {
				for i := range 20 {
					w = append(w, fmt.Sprint("1 INFO | a mac=", i))
				}
				return w
			}(),
		},
		{
			"socket_vmnet's own are", func(l *Log) { many(100, func(int) { l.Info("accepted a connection", "fd", 7) }) },
			[]string{"100 INFO | Accepted a connection (fd 7)"},
		},
		{
			"but not without end", func(l *Log) {
				many(2*lineBurst, func(int) { l.Info("accepted a connection", "fd", 7) })
				l.Info("b")
				l.Info("received signal", "signal", "x")
			},
			[]string{
				fmt.Sprint(lineBurst, " INFO | Accepted a connection (fd 7)"), "1 INFO | b", "1 INFO | Received signal x",
				fmt.Sprint("1 INFO | more lines than are logged ... again not_logged=", lineBurst),
			},
		},
		{
			"what is not logged is not counted", func(l *Log) {
				many(100, func(int) { l.Debug("a") })
				_ = l.SetLevel("debug")
				many(5, func(int) { l.Debug("a") })
			}, []string{"5 DEBUG| a"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			lines := folds(t, c.log)
			for len(lines) > 0 {
				n := slices.IndexFunc(lines, func(l string) bool { return l != lines[0] })
				if n < 0 {
					n = len(lines)
				}
				got = append(got, fmt.Sprint(n, " ", lines[0]))
				lines = lines[n:]
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestLogFileDropsWhatIsNotRead(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	f := &LogFile{FD: int(w.Fd()), note: func(w io.Writer) *slog.Logger { return NewLogger(w, slog.LevelInfo) }}
	line := []byte("INFO | " + strings.Repeat("x", 1000) + "\n")
	began := time.Now()
	const lines = 5000 // far more than a pipe holds
	for range lines {
		n, err := f.Write(line)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
		require.Less(t, time.Since(began), patience, "one wait, not one per line")
	}
	lost := f.lost
	assert.Positive(t, lost)

	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		got <- b
	}()
	require.Eventually(t, func() bool { // the reader is back
		_, err := f.Write([]byte("INFO | again\n"))
		return err == nil && f.lost == 0
	}, patience, time.Millisecond)
	require.NoError(t, w.Close())
	b := <-got
	assert.Equal(t, 1, bytes.Count(b, []byte("log lines were lost")))
	assert.True(t, bytes.HasSuffix(b, []byte("INFO | again\n")))
	for l := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		assert.Regexp(t, "^(INFO|WARN) ?\\| ", l, "every line has its begin")
	}
	assert.Equal(t, lines-lost, bytes.Count(b, line), "what was not counted as lost has come")
}

// TestLogFileOnAFullDisk: what could not be written is counted and told in the log's form as soon as there is room, and a line that was
// cut is ended first.
func TestLogFileOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		return // Linux has it
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for format, lost := range map[string]string{
		logPlain: `WARN \| log lines were lost, they could not be written lines=%d\n`,
		logText:  `.*level=WARN msg="log lines were lost, they could not be written" lines=%d\n`,
		logJSON:  `.*"level":"WARN","msg":"log lines were lost, they could not be written","lines":%d}\n`,
	} {
		t.Run(format, func(t *testing.T) {
			f := &LogFile{FD: int(full.Fd())}
			cfg := defaultConfig()
			cfg.LogFormat = format
			l := cfg.OpenLog(f)
			for range 3 {
				l.Info("lost")
			}
			path := filepath.Join(t.TempDir(), "log")
			log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			require.NoError(t, err)
			defer log.Close()
			f.FD = int(log.Fd())
			l.Info("there is room")
			f.lose(true)
			l.Info("whole")
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Regexp(t, "^"+fmt.Sprintf(lost, 3)+".*there is room.*\n\n"+fmt.Sprintf(lost, 1)+".*whole.*\n$", string(b))
		})
	}
}

// TestLogFileMovedAway: lines go to the path that the log had, once its file was moved away or removed; never to where others could have
// put a file.
func TestLogFileMovedAway(t *testing.T) {
	for name, c := range map[string]struct {
		mode fs.FileMode // of the directory
		away func(path string) error
		want string
	}{
		"moved":   {0o755, func(path string) error { return os.Rename(path, path+".0") }, "2\n"},
		"removed": {0o755, os.Remove, "2\n"},
		"moved, and a new one there": {0o755, func(path string) error {
			return errors.Join(os.Rename(path, path+".0"), os.WriteFile(path, []byte("new\n"), 0o600))
		}, "new\n2\n"},
		"a link in its place":    {0o755, func(path string) error { return errors.Join(os.Rename(path, path+".0"), os.Symlink("x", path)) }, ""},
		"where others may write": {0o777, func(path string) error { return os.Rename(path, path+".0") }, ""},
		"where it is":            {0o755, func(string) error { return nil }, "1\n2\n"},
		"removed before":         {0o755, func(string) error { return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.Chmod(filepath.Dir(path), c.mode))
			opened, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			require.NoError(t, err)
			defer opened.Close()
			f := &LogFile{FD: int(opened.Fd())}
			if name == "removed before" {
				require.NoError(t, os.Remove(path))
			}
			_, err = f.Write([]byte("1\n"))
			require.NoError(t, err)
			require.NoError(t, c.away(path))
			f.looked = time.Time{} // as after a second
			_, err = f.Write([]byte("2\n"))
			require.NoError(t, err)
			got, _ := os.ReadFile(path)
			assert.Equal(t, c.want, string(got))
			assert.NoFileExists(t, path+" (deleted)")
		})
	}
}
