// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const socket = "/var/run/socket_vmnet"

// warnings is how many there are in the log.
func warnings(log *vnettest.Log) int { return strings.Count(log.String(), "level=WARN") }

func open(dir string) (*File, *vnettest.Log) {
	log := &vnettest.Log{}
	return Open(Options{Dir: dir, Socket: socket, Log: slog.New(slog.NewTextHandler(log, nil))}), log
}

// stateDir is a directory that passes the checks, with the file of socket, if content is not "".
func stateDir(t *testing.T, content string) (dir, file string) {
	dir = filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file = filepath.Join(dir, FileName(socket))
	if content != "" {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return dir, file
}

func someLeases() []Lease {
	return []Lease{
		{
			MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 1}, IP: netip.MustParseAddr("192.168.105.2"),
			Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Hostname: "alpine", Name: "alpine-2",
		},
		{
			MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 2}, IP: netip.MustParseAddr("192.168.105.3"),
			Expires: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
		},
	}
}

const goodFile = `{"version": 1, "leases": [
	{"mac": "52:54:00:12:34:01", "ip": "192.168.105.2", "expires": "2026-01-02T03:04:05Z", "hostname": "alpine", "name": "alpine-2"},
	{"mac": "52:54:00:12:34:02", "ip": "192.168.105.3", "expires": "2026-01-02T03:04:06Z"}]}`

func TestSaveAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	f, log := open(dir)
	assert.Empty(t, f.Leases())
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	f.SaveLeases(func() []Lease { panic("called after Close") })

	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary file is left")

	g, log2 := open(dir)
	assert.Equal(t, someLeases(), g.Leases())
	require.NoError(t, g.Close())
	assert.Empty(t, log.String()+log2.String())
}

func TestUmaskDoesNotMatter(t *testing.T) {
	dir, _ := stateDir(t, "")
	old := syscall.Umask(0o777)
	f, _ := open(dir)
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	syscall.Umask(old)
	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestUnknownFieldsSurvive(t *testing.T) {
	dir, file := stateDir(t, `{"version": 1, "interfaces": {"a": [1, 2]}, "leases": []}`)
	f, _ := open(dir)
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	c, err := decode(b)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a": [1, 2]}`, string(c.extra["interfaces"]))
	assert.Len(t, c.leases, 2)
}

// TestIgnored: whatever is wrong with the file costs one warning, and the file is replaced at the next change.
func TestIgnored(t *testing.T) {
	long := strings.Repeat(" ", maxSize)
	tests := []struct{ name, content string }{
		{"empty", " "},
		{"not JSON", "\x00\x01"},
		{"cut", goodFile[:len(goodFile)/2]},
		{"rubbish behind", goodFile + "x"},
		{"a list", "[]"},
		{"no version", `{"leases": []}`},
		{"another version", `{"version": 2, "leases": []}`},
		{"version as text", `{"version": "1", "leases": []}`},
		{"leases as text", `{"version": 1, "leases": "x"}`},
		{"bad MAC", strings.Replace(goodFile, "52:54:00:12:34:01", "zz", 1)},
		{"long MAC", strings.Replace(goodFile, "52:54:00:12:34:01", "52:54:00:12:34:01:00:00", 1)},
		{"multicast MAC", strings.Replace(goodFile, "52:54:00:12:34:01", "53:54:00:12:34:01", 1)},
		{"zero MAC", strings.Replace(goodFile, "52:54:00:12:34:01", "00:00:00:00:00:00", 1)},
		{"MAC twice", strings.Replace(goodFile, "52:54:00:12:34:01", "52:54:00:12:34:02", 1)},
		{"bad IP", strings.Replace(goodFile, "192.168.105.2", "192.168.105.256", 1)},
		{"IPv6", strings.Replace(goodFile, "192.168.105.2", "::1", 1)},
		{"multicast IP", strings.Replace(goodFile, "192.168.105.2", "224.0.0.1", 1)},
		{"IP twice", strings.Replace(goodFile, "192.168.105.2", "192.168.105.3", 1)},
		{"bad time", strings.Replace(goodFile, "2026-01-02T03:04:05Z", "yesterday", 1)},
		{"bad name", strings.Replace(goodFile, "alpine-2", "a.b", 1)},
		{"name in capitals", strings.Replace(goodFile, "alpine-2", "Alpine-2", 1)},
		{"bad host name", strings.Replace(goodFile, "alpine", `a\nERROR| b`, 1)},
		{"too large", goodFile + long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, file := stateDir(t, tt.content)
			f, log := open(dir)
			assert.Empty(t, f.Leases())
			assert.Equal(t, 1, warnings(log), log)
			assert.Contains(t, log.String(), file)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			g, log := open(dir)
			assert.Equal(t, someLeases(), g.Leases())
			assert.Empty(t, log.String())
		})
	}
}

// TestForeign: what is at the file's path is not a file of ours.
func TestForeign(t *testing.T) {
	tests := []struct {
		name string
		root bool // needs root to set up
		make func(t *testing.T, file string)
	}{
		{"link to a good file", false, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file+".other", []byte(goodFile), 0o600))
			require.NoError(t, os.Symlink(file+".other", file))
		}},
		{"link to nothing", false, func(t *testing.T, file string) { require.NoError(t, os.Symlink("/nonexistent", file)) }},
		{"fifo", false, func(t *testing.T, file string) { require.NoError(t, syscall.Mkfifo(file, 0o600)) }},
		{"group may write", false, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(goodFile), 0o600))
			require.NoError(t, os.Chmod(file, 0o660))
		}},
		{"others may write", false, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(goodFile), 0o600))
			require.NoError(t, os.Chmod(file, 0o602))
		}},
		{"another owner", true, func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(goodFile), 0o600))
			require.NoError(t, os.Chown(file, 12345, -1))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				if os.Getenv("CI") != "" {
					t.Fatal("CI has to run the tests as root")
				}
				t.Skip("needs root to give a file to another user: run the tests as root")
			}
			dir, file := stateDir(t, "")
			tt.make(t, file)
			f, log := open(dir)
			assert.Empty(t, f.Leases())
			assert.Equal(t, 1, warnings(log), log)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			info, err := os.Lstat(file)
			require.NoError(t, err)
			assert.True(t, info.Mode().IsRegular(), "replaced by a file of ours")
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			if b, err := os.ReadFile(file + ".other"); err == nil {
				assert.Equal(t, goodFile, string(b), "the link was not followed")
			}
		})
	}
}

func TestDirectoryAtPath(t *testing.T) {
	dir, file := stateDir(t, "")
	require.NoError(t, os.Mkdir(file, 0o700))
	f, log := open(dir)
	assert.Equal(t, 1, warnings(log))
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	assert.Equal(t, 2, warnings(log), "one for reading, one for writing")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// dirCase is a directory that is trusted or not.
type dirCase struct {
	name string
	make func(t *testing.T, base string) (dir string)
	root bool // the rule is for root only, or needs root to set up
	ok   bool
}

func dirCases() []dirCase {
	return []dirCase{
		{name: "fine", ok: true, make: func(_ *testing.T, base string) string { return filepath.Join(base, "a") }},
		{name: "link of ours", ok: true, make: func(t *testing.T, base string) string {
			require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
			require.NoError(t, os.Symlink("real", filepath.Join(base, "link")))
			return filepath.Join(base, "link", "x")
		}},
		{name: "sticky parent", ok: true, make: func(t *testing.T, base string) string {
			require.NoError(t, os.Mkdir(filepath.Join(base, "a"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(base, "a"), 0o777|os.ModeSticky))
			return filepath.Join(base, "a", "x")
		}},
		{name: "sticky itself", make: func(t *testing.T, base string) string {
			require.NoError(t, os.Mkdir(filepath.Join(base, "a"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(base, "a"), 0o777|os.ModeSticky))
			return filepath.Join(base, "a")
		}},
		{name: "others may write", make: func(t *testing.T, base string) string {
			require.NoError(t, os.Mkdir(filepath.Join(base, "a"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(base, "a"), 0o703))
			return filepath.Join(base, "a")
		}},
		{name: "others may write the parent", make: func(t *testing.T, base string) string {
			require.NoError(t, os.MkdirAll(filepath.Join(base, "a", "x"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(base, "a"), 0o703))
			return filepath.Join(base, "a", "x")
		}},
		{name: "group may write the parent", root: true, make: func(t *testing.T, base string) string {
			require.NoError(t, os.MkdirAll(filepath.Join(base, "a", "x"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(base, "a"), 0o770))
			return filepath.Join(base, "a", "x")
		}},
		{name: "another's parent", root: true, make: func(t *testing.T, base string) string {
			require.NoError(t, os.MkdirAll(filepath.Join(base, "a", "x"), 0o700))
			require.NoError(t, os.Chown(filepath.Join(base, "a"), 12345, -1))
			return filepath.Join(base, "a", "x")
		}},
		{name: "another's link", root: true, make: func(t *testing.T, base string) string {
			require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
			require.NoError(t, os.Symlink("real", filepath.Join(base, "link")))
			require.NoError(t, os.Lchown(filepath.Join(base, "link"), 12345, -1))
			return filepath.Join(base, "link")
		}},
		{name: "links in a circle", make: func(t *testing.T, base string) string {
			require.NoError(t, os.Symlink("b", filepath.Join(base, "a")))
			require.NoError(t, os.Symlink("a", filepath.Join(base, "b")))
			return filepath.Join(base, "a")
		}},
		{name: "a file", make: func(t *testing.T, base string) string {
			require.NoError(t, os.WriteFile(filepath.Join(base, "a"), nil, 0o600))
			return filepath.Join(base, "a")
		}},
		{name: "below a file", make: func(t *testing.T, base string) string {
			require.NoError(t, os.WriteFile(filepath.Join(base, "a"), nil, 0o600))
			return filepath.Join(base, "a", "x")
		}},
	}
}

// TestUntrustedDirectory: state is neither read nor written where others could change it.
func TestUntrustedDirectory(t *testing.T) {
	for _, tt := range dirCases() {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				if os.Getenv("CI") != "" {
					t.Fatal("CI has to run the tests as root")
				}
				t.Skip("needs root, for whom the rules are stricter: run the tests as root")
			}
			dir := tt.make(t, t.TempDir())
			f, log := open(dir)
			f.SaveLeases(someLeases)
			require.NoError(t, f.Close())
			if tt.ok {
				assert.Empty(t, log.String())
				assert.FileExists(t, f.Path())
				return
			}
			assert.Equal(t, 1, warnings(log), log)
			assert.Empty(t, f.Path())
			assert.NoFileExists(t, filepath.Join(dir, FileName(socket)))
		})
	}
}

func TestNoDirectory(t *testing.T) {
	f, log := open("")
	f.SaveLeases(func() []Lease { panic("called") })
	require.NoError(t, f.Close())
	assert.Empty(t, f.Path()+log.String())
}

// TestDiskFull: the old file stays whole, one warning however often it fails, and it is tried again.
func TestDiskFull(t *testing.T) {
	dir, file := stateDir(t, goodFile)
	f, log := open(dir)
	f.write = func(_ string, b []byte) error {
		// The write itself fails as on a full disk; replace's own steps around it stay.
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			return syscall.ENOSPC // macOS has no /dev/full
		}
		defer full.Close()
		_, err = full.Write(b)
		return err
	}
	for range 3 {
		f.SaveLeases(func() []Lease { return someLeases()[:1] })
		f.save()
	}
	assert.Equal(t, 1, warnings(log), log)
	assert.Contains(t, log.String(), "no space left")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, goodFile, string(b))

	f.write = replace
	require.NoError(t, f.Close(), "Close tries again")
	g, _ := open(dir)
	assert.Len(t, g.Leases(), 1)
}

func TestStaleTemporaryFile(t *testing.T) {
	dir, file := stateDir(t, "")
	require.NoError(t, os.WriteFile(file+".tmp", []byte("of a crash"), 0o600))
	f, log := open(dir)
	f.SaveLeases(someLeases)
	require.NoError(t, f.Close())
	assert.Empty(t, log.String())
	assert.NoFileExists(t, file+".tmp")
}

// TestDebounce: a change is written a second later, many changes are written once, and nothing runs while nothing changes.
func TestDebounce(t *testing.T) {
	dir, _ := stateDir(t, "")
	synctest.Test(t, func(t *testing.T) {
		f, _ := open(dir)
		var writes atomic.Int32
		f.write = func(string, []byte) error { writes.Add(1); return nil }
		for range 100 {
			f.SaveLeases(someLeases)
			time.Sleep(5 * time.Millisecond)
		}
		assert.Zero(t, writes.Load())
		time.Sleep(501 * time.Millisecond)
		assert.EqualValues(t, 1, writes.Load(), "a second after the first change")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, writes.Load())
		f.SaveLeases(someLeases)
		require.NoError(t, f.Close())
		assert.EqualValues(t, 2, writes.Load(), "Close does not wait")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 2, writes.Load())
	})
}

// TestFailureIsRetriedByTheNextChange: a failed write does not stop the debouncing.
func TestFailureIsRetriedByTheNextChange(t *testing.T) {
	dir, _ := stateDir(t, "")
	synctest.Test(t, func(t *testing.T) {
		f, _ := open(dir)
		var writes atomic.Int32
		f.write = func(string, []byte) error { writes.Add(1); return errors.New("no") }
		f.SaveLeases(someLeases)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, writes.Load(), "no timer runs after a failure")
		f.SaveLeases(someLeases)
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, writes.Load())
		require.NoError(t, f.Close())
		require.EqualValues(t, 3, writes.Load())
	})
}

// TestConcurrentSaves: changes, saves and Close from many goroutines; the file is always whole and ends at the last state.
func TestConcurrentSaves(t *testing.T) {
	dir, file := stateDir(t, goodFile)
	f, log := open(dir)
	var last atomic.Int64
	snapshot := func() []Lease {
		l := someLeases()
		l[0].Expires = time.Unix(last.Load(), 0).UTC()
		return l
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 30 {
				last.Add(1)
				f.SaveLeases(snapshot)
				f.save()
				b, err := os.ReadFile(file)
				if assert.NoError(t, err) {
					_, err = decode(b)
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	assert.Empty(t, log.String())
	g, _ := open(dir)
	assert.Equal(t, int64(240), g.Leases()[0].Expires.Unix())
}
