// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// What --log-format takes.
const (
	logPlain = "plain" // socket_vmnet's own form
	logText  = "text"  // key=value, with the time
	logJSON  = "json"  // an object a line
)

// levels are what --log-level takes, from the most to the least: slog's names in small letters.
var levels = []string{"debug", "info", "warn", "error"}

// logTime is the form of times: RFC 3339 with milliseconds, in UTC.
const logTime = "2006-01-02T15:04:05.000Z"

// A Log is the daemon's log: one of three forms, a level that can be changed while it runs, and lines that repeat are counted.
type Log struct {
	*slog.Logger

	level *slog.LevelVar
	fold  *folder
}

// OpenLog makes the log that c asks for, on w. Flush comes at the end.
func (c *Config) OpenLog(w io.Writer) *Log {
	l := &Log{level: new(slog.LevelVar)}
	_ = l.SetLevel(c.LogLevel)
	if c.Debug {
		l.level.Set(slog.LevelDebug)
	}
	if f, ok := w.(*LogFile); ok {
		f.note = func(w io.Writer) *slog.Logger { return slog.New(newFormat(c.LogFormat, w, slog.LevelWarn)) }
	}
	h := newFormat(c.LogFormat, w, l.level)
	l.fold = &folder{base: h, budget: rate.NewLimiter(lineRate, lineBurst), connections: rate.NewLimiter(lineRate, lineBurst)}
	l.Logger = slog.New(&folding{Handler: h, folder: l.fold})
	return l
}

// Level is what is logged: "debug", "info", "warn" or "error". On nil it is "info".
func (l *Log) Level() string {
	if l != nil {
		return strings.ToLower(l.level.Level().String())
	}
	return "info"
}

// SetLevel has what is of this level, or worse, logged from now on.
func (l *Log) SetLevel(name string) error {
	if !slices.Contains(levels, name) {
		return fmt.Errorf("invalid level %q: use debug, info, warn or error", name)
	}
	return l.level.UnmarshalText([]byte(name))
}

// Flush tells what is held back. It may be called on nil.
func (l *Log) Flush() {
	if l != nil {
		l.fold.flush()
	}
}

// newFormat makes the handler of a format.
func newFormat(format string, w io.Writer, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: plainValue}
	switch format {
	case logJSON:
		return slog.NewJSONHandler(w, o)
	case logText:
		return slog.NewTextHandler(w, o)
	}
	return newHandler(w, level)
}

// identity are the attributes by which lines with one message are of different things.
var identity = []string{"client", "mac", "address", "path", "option", "name"}

// about adds what a tells of the thing that a line is about.
func about(was string, a slog.Attr) string {
	if !slices.Contains(identity, a.Key) {
		return was
	}
	return was + a.Key + strings.ToValidUTF8(a.Value.String(), "") + "\n"
}

const (
	// logWait is how long a log line waits for the reader of the log. After one wait in vain no line waits until one gets
	// through.
	logWait = 100 * time.Millisecond
	// logPiece is what a pipe that is writable at all takes without blocking, in bytes: PIPE_BUF of Linux; macOS has 512
	// and reports a pipe writable with at least that.
	logPiece = 512
)

// A LogFile writes log lines to a descriptor and drops them, counted, when they are not read or cannot be written: neither
// a stalled log nor a full disk may stop the network or keep the daemon from ending. It is used by one goroutine at a time.
type LogFile struct {
	FD     int
	path   string    // of the file that FD is, as it was at first
	looked time.Time // whether it is still there
	lost   int       // lines
	cut    bool      // the last of them was written in part
	deaf   bool      // the last wait was in vain

	note func(w io.Writer) *slog.Logger // of the log's form
}

// Write implements io.Writer for whole lines.
func (f *LogFile) Write(line []byte) (int, error) {
	f.follow()
	if f.lost > 0 {
		if !f.ready() {
			f.lose(false)
			return len(line), nil
		}
		var note bytes.Buffer
		if f.cut {
			note.WriteByte('\n')
		}
		f.note(&note).Warn("log lines were lost, they could not be written", "lines", f.lost)
		if _, err := unix.Write(f.FD, note.Bytes()); err != nil { // the line would follow one that is cut
			f.lose(false)
			return 0, err
		}
		f.lost, f.cut = 0, false
	}
	for rest := line; len(rest) > 0; {
		if !f.ready() {
			f.lose(len(rest) < len(line))
			break
		}
		n, err := unix.Write(f.FD, rest[:min(len(rest), logPiece)])
		if err != nil && err != unix.EINTR { // the disk may be full
			f.lose(len(rest) < len(line))
			return len(line) - len(rest), err
		}
		rest = rest[max(n, 0):]
	}
	return len(line), nil
}

// follow goes on in a new file once the old one was moved away or removed, as newsyslog does: launchd opens a log only once. In a
// directory where others can write it stays with the file that it has.
func (f *LogFile) follow() {
	now := time.Now()
	if now.Sub(f.looked) < time.Second {
		return
	}
	f.looked = now
	path := cmp.Or(f.path, hostfs.PathOf(f.FD))
	var was, is unix.Stat_t
	regular := unix.Fstat(f.FD, &was) == nil && was.Mode&unix.S_IFMT == unix.S_IFREG
	same := regular && unix.Stat(path, &is) == nil && is.Dev == was.Dev && is.Ino == was.Ino
	if same {
		f.path = path
	}
	if !regular || same || f.path == "" { // "": it had no name at first
		return
	}
	if _, err := hostfs.PrivateDir(filepath.Dir(f.path), os.Geteuid()); err != nil {
		return
	}
	fd, err := unix.Open(f.path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err == nil {
		_ = hostfs.Dup2(fd, f.FD)
		_ = unix.Close(fd)
	}
}

// lose counts a line, of which a part may have been written.
func (f *LogFile) lose(inPart bool) {
	f.lost++
	f.cut = f.cut || inPart
}

// ready reports whether a short write will not block.
func (f *LogFile) ready() bool {
	end := time.Now()
	if !f.deaf {
		end = end.Add(logWait)
	}
	for {
		wait := max(0, time.Until(end).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.FD), Events: unix.POLLOUT}}, int(wait))
		if err == unix.EINTR { // also by the runtime's own signals
			continue
		}
		f.deaf = n == 0 && err == nil
		return !f.deaf
	}
}
