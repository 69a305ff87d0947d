// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat/errtext"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A handler prints one line per record as socket_vmnet does: no time, "INFO | " or its like in front, and behind the message
// the attributes as key=value. Events that socket_vmnet logs too have exactly its text.
type handler struct {
	out    *lineWriter
	level  slog.Leveler
	attrs  []attr // of WithAttrs, keys with their groups
	prefix string // of WithGroup, ends with a dot
}

// An attr is a key and its value as text.
type attr struct {
	key   string
	value string
}

// A lineWriter keeps lines whole.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// NewLogger makes the daemon's logger, which writes lines to w at level and above. It is safe for concurrent use and makes
// one Write per line. Errors to write are ignored: there is nowhere to tell them.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(&handler{out: &lineWriter{w: w}, level: level})
}

// Enabled reports whether records of level l are printed.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs returns a handler that adds attrs to every record.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Clip(c.attrs)
	for _, a := range attrs {
		c.attrs = appendAttr(c.attrs, h.prefix, a)
	}
	return &c
}

// WithGroup implements slog.Handler: name and a dot stand in front of the keys that follow.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.prefix += name + "."
	return &c
}

// Handle prints r.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = appendAttr(attrs, h.prefix, a)
		return true
	})
	line := levelPrefix(r.Level)
	if text, ok := legacyText(r.Message, attrs); ok {
		line += escape(text)
	} else {
		line += escape(r.Message) + keyValues(attrs)
	}
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, line+"\n")
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

// levelPrefix is what a line of level l begins with.
func levelPrefix(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "DEBUG| "
	case l < slog.LevelWarn:
		return "INFO | "
	case l < slog.LevelError:
		return "WARN | "
	}
	return "ERROR| "
}

// appendAttr adds a to attrs, a group as its members.
func appendAttr(attrs []attr, prefix string, a slog.Attr) []attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, m := range v.Group() {
			attrs = appendAttr(attrs, prefix, m)
		}
		return attrs
	}
	if a.Equal(slog.Attr{}) {
		return attrs
	}
	return append(attrs, attr{key: prefix + a.Key, value: valueText(v)})
}

// valueText renders v, errors with C's errno texts and signals with C's names.
func valueText(v slog.Value) string {
	if v.Kind() != slog.KindAny {
		return v.String()
	}
	switch x := v.Any().(type) {
	case error:
		return errtext.Message(x)
	case os.Signal:
		return SignalText(x)
	case network.Mode:
		return string(x)
	}
	return v.String()
}

// keyValues is the tail of a line.
func keyValues(attrs []attr) string {
	var b strings.Builder
	for _, a := range attrs {
		b.WriteByte(' ')
		b.WriteString(quoteIfNeeded(a.key))
		b.WriteByte('=')
		b.WriteString(quoteIfNeeded(a.value))
	}
	return b.String()
}

// quoteIfNeeded quotes s in Go's way when it could not be told from what follows.
func quoteIfNeeded(s string) string {
	if s == "" || !clean(s) || strings.ContainsAny(s, ` "=\`) {
		return strconv.Quote(s)
	}
	return s
}

// escape replaces what does not belong into one line of a log: control characters, bytes that are not UTF-8 and everything
// else that strconv calls unprintable. Values may come from guests.
func escape(s string) string {
	if clean(s) {
		return s
	}
	q := strconv.Quote(s)
	return unquoter.Replace(q[1 : len(q)-1])
}

// unquoter undoes what strconv.Quote does to quotation marks and backslashes alone.
var unquoter = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// clean tells whether escape has nothing to do, which is nearly always.
func clean(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// quoted is s between the quotation marks of socket_vmnet's messages. The line is escaped when it is printed.
func quoted(s string) string { return `"` + s + `"` }
