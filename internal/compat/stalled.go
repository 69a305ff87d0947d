// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

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
	FD   int
	lost int  // lines
	cut  bool // the last of them was written in part
	deaf bool // the last wait was in vain

	note func(w io.Writer) *slog.Logger // of the log's form
}

// Write implements io.Writer for whole lines.
func (f *LogFile) Write(line []byte) (int, error) {
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
