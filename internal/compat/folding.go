// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// foldTime is how long lines count as repeated, and foldAfter how many of them are logged in that time.
	foldTime  = 10 * time.Second
	foldAfter = 5

	// foldTick is how often is looked for what has been held back for long enough, when something is logged.
	foldTick = time.Second

	// maxFolds is how many different lines are told from each other at once.
	maxFolds = 1024

	// lineBurst and lineRate are how many lines are logged in all, at once and a second, and how many about connections: the
	// clients of a full daemon may come and go, and an attack by lines that differ makes 2 KB a second.
	lineBurst = 4096
	lineRate  = 20
)

// again is what stands behind a message that was held back.
const again = " ... again"

// A folding is a handler that has its folder count lines that repeat. socket_vmnet's own may repeat, those about
// connections up to a number of them in all.
type folding struct {
	next   slog.Handler
	folder *folder
	about  string // of WithAttrs
}

// Enabled implements slog.Handler.
func (f *folding) Enabled(ctx context.Context, l slog.Level) bool { return f.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (f *folding) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *f
	c.next = f.next.WithAttrs(attrs)
	for _, a := range attrs {
		c.about = about(c.about, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (f *folding) WithGroup(name string) slog.Handler {
	c := *f
	c.next = f.next.WithGroup(name)
	return &c
}

// Handle implements slog.Handler. It holds no lock while it writes: the reader of the log may be slow.
func (f *folding) Handle(ctx context.Context, r slog.Record) error {
	k := fold{level: r.Level, message: r.Message, about: f.about}
	r.Attrs(func(a slog.Attr) bool {
		k.about = about(k.about, a)
		return true
	})
	write(ctx, f.folder.take(k, line{f.next, r}))
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

// tell is the line about what was held back.
func (p *repeat) tell(now time.Time) line {
	r := slog.NewRecord(now, p.last.r.Level, p.last.r.Message+again, 0)
	p.last.r.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	r.AddAttrs(slog.Int("not_logged", p.held))
	return line{p.last.to, r}
}

// A folder decides what is logged, and what is told as a number when the next line is logged, or at the end.
type folder struct {
	base slog.Handler // for what is told of lines of many kinds

	mu          sync.Mutex
	folds       map[fold]*repeat // at most maxFolds
	swept       time.Time
	budget      tokens
	connections tokens // of socket_vmnet's lines about connections, three for each
	rest        repeat // of lines that were one too many in all
}

func newFolder(base slog.Handler) *folder {
	return &folder{base: base, folds: map[fold]*repeat{}}
}

// take returns what is to be logged now: l itself, unless it is held back, behind what was held back for long enough.
func (f *folder) take(k fold, l line) (lines []line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.swept) >= foldTick {
		lines = f.sweep(now, foldTime)
	}
	if _, legacy := legacyEvents[k.message]; legacy {
		if strings.Contains(k.message, "connection") && !f.connections.take(now) {
			f.holdRest(1, k.level, now)
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
		p.held++
		p.last = l
	case !f.budget.take(now):
		f.holdRest(1, k.level, now)
	default:
		p.n++
		lines = append(lines, l)
	}
	return lines
}

// sweep forgets the folds that began so long ago, and tells of what they held back.
func (f *folder) sweep(now time.Time, age time.Duration) (lines []line) {
	f.swept = now
	var old []*repeat
	for k, p := range f.folds {
		if now.Sub(p.since) >= age {
			delete(f.folds, k)
			old = append(old, p)
		}
	}
	slices.SortFunc(old, func(a, b *repeat) int { return a.since.Compare(b.since) })
	for _, p := range old {
		switch {
		case p.held == 0:
		case f.budget.take(now):
			lines = append(lines, p.tell(now))
		default:
			f.holdRest(p.held, p.last.r.Level, now)
		}
	}
	if f.rest.held > 0 && now.Sub(f.rest.since) >= age {
		lines = append(lines, f.rest.tell(now))
		f.rest = repeat{}
	}
	return lines
}

// holdRest counts n lines among the others.
func (f *folder) holdRest(n int, level slog.Level, now time.Time) {
	if f.rest.held == 0 {
		f.rest.since = now
		f.rest.last = line{f.base, slog.Record{Message: "more lines than are logged", Level: level}}
	}
	f.rest.held += n
	f.rest.last.r.Level = max(f.rest.last.r.Level, level)
}

// flush tells all that is held back.
func (f *folder) flush() {
	f.mu.Lock()
	lines := f.sweep(time.Now(), 0)
	f.mu.Unlock()
	write(context.Background(), lines)
}

// tokens is a budget of lines. The zero value is full.
type tokens struct {
	spent float64
	last  time.Time // when spent was right
}

func (t *tokens) take(now time.Time) bool {
	t.spent = max(0, t.spent-now.Sub(t.last).Seconds()*lineRate)
	t.last = now
	if t.spent > lineBurst-1 {
		return false
	}
	t.spent++
	return true
}
