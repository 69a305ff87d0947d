// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits on log lines that guests can provoke: of each message logBurst in logWindow, warnings once, the rest is counted.
const (
	logBurst  = 10
	logWindow = 10 * time.Second
)

// limitLog returns a logger for what guests can provoke. Messages are constants, so their number is bounded.
func limitLog(l *slog.Logger) *slog.Logger {
	return slog.New(&limiter{Handler: l.Handler(), seen: &seen{byMessage: map[string]*window{}}})
}

type limiter struct {
	slog.Handler
	seen *seen
}

type seen struct {
	mu        sync.Mutex
	byMessage map[string]*window
}

type window struct {
	start      time.Time
	n          int
	suppressed int
}

// Handle implements slog.Handler.
func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	l.seen.mu.Lock()
	w := l.seen.byMessage[r.Message]
	if w == nil {
		w = &window{}
		l.seen.byMessage[r.Message] = w
	}
	if r.Time.Sub(w.start) >= logWindow || r.Time.Before(w.start) {
		w.start, w.n = r.Time, 0
	}
	w.n++
	if w.n > logBurst || w.n > 1 && r.Level == slog.LevelWarn {
		w.suppressed++
		l.seen.mu.Unlock()
		return nil
	}
	suppressed := w.suppressed
	w.suppressed = 0
	l.seen.mu.Unlock()
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *limiter) WithAttrs(a []slog.Attr) slog.Handler {
	return &limiter{Handler: l.Handler.WithAttrs(a), seen: l.seen}
}

// WithGroup implements slog.Handler.
func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{Handler: l.Handler.WithGroup(name), seen: l.seen}
}
