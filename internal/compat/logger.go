// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A handler prints one line per record as socket_vmnet does: no time, "INFO | " or its like in front, and behind the message
// the attributes as key=value. Events that socket_vmnet logs too have exactly its text.
type handler struct {
	*lineWriter
	tail  slog.Handler // writes the attributes to the lineWriter's buffer
	attrs []slog.Attr  // of WithAttrs, for socket_vmnet's texts
}

// A lineWriter keeps lines whole.
type lineWriter struct {
	mu  sync.Mutex
	buf bytes.Buffer
	w   io.Writer
}

// NewLogger makes the daemon's logger, which writes lines to w at level and above. It is safe for concurrent use and makes
// one Write per line. Errors to write are ignored: there is nowhere to tell them.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger { return slog.New(newHandler(w, level)) }

func newHandler(w io.Writer, level slog.Leveler) slog.Handler {
	out := &lineWriter{w: w}
	return &handler{lineWriter: out, tail: slog.NewTextHandler(&out.buf, &slog.HandlerOptions{Level: level, ReplaceAttr: tailValue})}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.tail.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.lineWriter, h.tail.WithAttrs(attrs), slices.Concat(h.attrs, attrs)}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.lineWriter, h.tail.WithGroup(name), h.attrs}
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, ok := legacyText(r, h.attrs)
	if !ok {
		text = r.Message
		h.buf.Reset()
		r.Time, r.Message = time.Time{}, ""
		if err := h.tail.Handle(ctx, r); err != nil {
			return err
		}
		if tail := strings.TrimSuffix(h.buf.String(), "\n"); tail != "" {
			text += " " + tail
		}
	}
	_, err := fmt.Fprintf(h.w, "%-5s| %s\n", r.Level, escape(text))
	return err
}

// tailValue leaves out what stands in front of a line's tail.
func tailValue(groups []string, a slog.Attr) slog.Attr {
	if _, level := a.Value.Any().(slog.Level); level && a.Key == slog.LevelKey || a.Equal(slog.String(slog.MessageKey, "")) {
		return slog.Attr{}
	}
	return readable(groups, a)
}

// readable has values be text that tells people something: errors with C's errno texts, signals with C's names.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch x := a.Value.Any().(type) {
	case slog.Level, time.Time, time.Duration:
	case error:
		a.Value = slog.StringValue(message(x))
	case os.Signal:
		a.Value = slog.StringValue(SignalText(x))
	case fmt.Stringer: // such as an address, which is bytes
		a.Value = slog.StringValue(x.String())
	}
	return a
}

// plainValue has values be what other programs can read as well: times in UTC, durations in seconds.
func plainValue(groups []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format(logTime))
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return readable(groups, a)
}

// escape replaces what does not belong into one line of a log: control characters, bytes that are not UTF-8 and everything
// else that strconv calls unprintable. Values may come from guests.
func escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 { // nearly always
		return s
	}
	q := strconv.Quote(s)
	return unquoter.Replace(q[1 : len(q)-1])
}

// unquoter undoes what strconv.Quote does to quotation marks and backslashes alone.
var unquoter = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// quoted is s between the quotation marks of socket_vmnet's messages. The line is escaped when it is printed.
func quoted(s string) string { return `"` + s + `"` }
