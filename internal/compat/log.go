// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
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

// OpenLog makes the log that c asks for, on w. It is closed by Close.
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
	l.fold = newFolder(h)
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
		return fmt.Errorf("%q is no level: there are debug, info, warn and error", name)
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
	for _, key := range identity {
		if a.Key == key {
			return was + key + strings.ToValidUTF8(a.Value.String(), "") + "\n"
		}
	}
	return was
}
