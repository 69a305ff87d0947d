// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// foldTime is how long lines count as repeated, and foldAfter how many of them are logged in that time.
	foldTime  = 10 * time.Second
	foldAfter = 5

	// maxFolds is how many different lines are told from each other at once.
	maxFolds = 1024

	// lineBurst and lineRate are how many lines are logged in all, at once and a second, and how many about connections: the
	// clients of a full daemon may come and go, and an attack by lines that differ makes 2 KB a second.
	lineBurst = 4096
	lineRate  = 20
)

// A folding is a handler that has its folder count lines that repeat. socket_vmnet's own may repeat, those about
// connections up to a number of them in all. Those of a group, which the daemon has none of, are not counted.
type folding struct {
	slog.Handler
	folder *folder
	about  string // of WithAttrs
}

// WithAttrs implements slog.Handler.
func (f *folding) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *f
	c.Handler = f.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		c.about = about(c.about, a)
	}
	return &c
}

// Handle implements slog.Handler. It holds no lock while it writes: the reader of the log may be slow.
func (f *folding) Handle(ctx context.Context, r slog.Record) error {
	k := fold{level: r.Level, message: r.Message, about: f.about}
	r.Attrs(func(a slog.Attr) bool {
		k.about = about(k.about, a)
		return true
	})
	write(ctx, f.folder.take(k, line{f.Handler, r}))
	return nil
}

// A line is a record and the handler that prints it.
type line struct {
	to slog.Handler
	r  slog.Record
}

func write(ctx context.Context, lines []line) {
	for _, l := range lines {
		_ = l.to.Handle(ctx, l.r)
	}
}

// A fold is what lines have in common that repeat.
type fold struct {
	level   slog.Level
	message string
	about   string
}

// A repeat counts them.
type repeat struct {
	since time.Time
	n     int  // logged since then
	held  int  // and not logged
	last  line // of these
}

// hold counts n lines that are not logged.
func (p *repeat) hold(n int, l line) {
	p.held += n
	p.last = l
}

// tell is the line about what was held back.
func (p *repeat) tell(now time.Time) line {
	r := p.last.r.Clone()
	r.Time, r.Message = now, r.Message+" ... again"
	r.AddAttrs(slog.Int("not_logged", p.held))
	return line{p.last.to, r}
}

// A folder decides what is logged, and what is told as a number when the next line is logged after foldTime, or at the end.
type folder struct {
	base slog.Handler // for what is told of lines of many kinds

	mu          sync.Mutex
	since       time.Time        // when the time began in which they are counted
	folds       map[fold]*repeat // at most maxFolds
	budget      *rate.Limiter
	connections *rate.Limiter // of socket_vmnet's lines about connections, three for each
	rest        repeat        // of lines that were one too many in all
}

// take returns what is to be logged now: l itself, unless it is held back, behind what was held back for long enough.
func (f *folder) take(k fold, l line) (lines []line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.since) >= foldTime {
		lines = f.sweep(now)
	}
	if _, legacy := legacyEvents[k.message]; legacy {
		if strings.Contains(k.message, "connection") && !f.connections.Allow() {
			f.holdRest(1, k.level)
			return lines
		}
		return append(lines, l)
	}
	p := f.folds[k]
	if p == nil {
		if p = (&repeat{since: now}); len(f.folds) < maxFolds {
			f.folds[k] = p
		}
	}
	switch {
	case p.n >= foldAfter:
		p.hold(1, l)
	case !f.budget.Allow():
		f.holdRest(1, k.level)
	default:
		p.n++
		lines = append(lines, l)
	}
	return lines
}

// sweep begins to count anew, and tells of what was held back.
func (f *folder) sweep(now time.Time) (lines []line) {
	for _, p := range slices.SortedFunc(maps.Values(f.folds), func(a, b *repeat) int { return a.since.Compare(b.since) }) {
		switch {
		case p.held == 0:
		case f.budget.Allow():
			lines = append(lines, p.tell(now))
		default:
			f.holdRest(p.held, p.last.r.Level)
		}
	}
	if f.rest.held > 0 {
		lines = append(lines, f.rest.tell(now))
	}
	f.since, f.folds, f.rest = now, map[fold]*repeat{}, repeat{}
	return lines
}

// holdRest counts n lines among the others.
func (f *folder) holdRest(n int, level slog.Level) {
	level = max(level, f.rest.last.r.Level) // the zero Level is Info
	f.rest.hold(n, line{f.base, slog.Record{Message: "more lines than are logged", Level: level}})
}

// flush tells all that is held back.
func (f *folder) flush() {
	f.mu.Lock()
	lines := f.sweep(time.Now())
	f.mu.Unlock()
	write(context.Background(), lines)
}
