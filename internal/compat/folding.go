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

	// foldTick is how often is looked for what has been held back for long enough, while anything is. No ERROR waits longer.
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
	next    slog.Handler
	folder  *folder
	who     string // of WithAttrs
	grouped bool   // keys are not what they seem
}

// Enabled implements slog.Handler.
func (f *folding) Enabled(ctx context.Context, l slog.Level) bool { return f.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (f *folding) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *f
	c.next = f.next.WithAttrs(attrs)
	if !c.grouped {
		for _, a := range attrs {
			c.who = who(c.who, a)
		}
	}
	return &c
}

// WithGroup implements slog.Handler.
func (f *folding) WithGroup(name string) slog.Handler {
	c := *f
	c.next, c.grouped = f.next.WithGroup(name), f.grouped || name != ""
	return &c
}

// Handle implements slog.Handler.
func (f *folding) Handle(ctx context.Context, r slog.Record) error {
	if _, legacy := legacyEvents[r.Message]; legacy {
		if strings.Contains(r.Message, "connection") && !f.folder.takeConnection(r.Level) {
			return nil
		}
		return f.next.Handle(ctx, r)
	}
	k := fold{level: r.Level, message: r.Message, who: f.who}
	if !f.grouped {
		r.Attrs(func(a slog.Attr) bool {
			k.who = who(k.who, a)
			return true
		})
	}
	before, ok := f.folder.take(k, line{f.next, r})
	before.write(ctx)
	if !ok {
		return nil
	}
	return f.next.Handle(ctx, r)
}

// A line is a record and who prints it.
type line struct {
	to slog.Handler
	r  slog.Record
}

// lines are to be written, by nobody who holds a lock: whoever reads the log may take his time.
type lines []line

func (ls lines) write(ctx context.Context) {
	for _, l := range ls {
		_ = l.to.Handle(ctx, l.r)
	}
}

// A fold is what lines have in common that repeat.
type fold struct {
	level   slog.Level
	message string
	who     string
}

// A repeat counts them.
type repeat struct {
	since time.Time
	n     int  // logged since then
	held  int  // and not logged, nor told
	last  line // of these
}

// tell is the line about what was held back, and forgets it.
func (p *repeat) tell(now time.Time) line {
	r := slog.NewRecord(now, p.last.r.Level, p.last.r.Message+again, 0)
	p.last.r.Attrs(func(a slog.Attr) bool {
		r.AddAttrs(a)
		return true
	})
	r.AddAttrs(slog.Int("not_logged", p.held))
	l := line{p.last.to, r}
	p.held, p.last = 0, line{}
	return l
}

// A folder decides what is logged now, later as a number, or among others. A timer runs only while something is held back.
type folder struct {
	base slog.Handler // for what is told of lines of many kinds

	mu          sync.Mutex
	folds       map[fold]*repeat // at most maxFolds
	swept       time.Time
	budget      tokens
	connections tokens // of socket_vmnet's lines about connections, three for each
	rest        repeat // of lines that were one too many in all
	timer       *time.Timer
}

func newFolder(base slog.Handler) *folder {
	return &folder{base: base, folds: map[fold]*repeat{}}
}

// take reports whether l is to be logged now, and what is to be before it.
func (f *folder) take(k fold, l line) (before lines, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	p := f.find(k, now)
	if p == nil {
		if f.budget.take(now) {
			return nil, true
		}
		f.holdRest(1, l.r.Level, now)
		return nil, false
	}
	if now.Sub(p.since) >= foldTime {
		if p.held > 0 {
			before = f.told(p, now, before)
		}
		p.since, p.n = now, 0
	}
	if p.n < foldAfter && f.budget.take(now) {
		p.n++
		return before, true
	}
	p.held++
	p.last = l
	f.tickLater()
	return before, false
}

// takeConnection is take for one of socket_vmnet's lines about connections.
func (f *folder) takeConnection(level slog.Level) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.connections.take(now) {
		return true
	}
	f.holdRest(1, level, now)
	return false
}

// find is k's counter, nil when there are too many. What follows is called under mu.
func (f *folder) find(k fold, now time.Time) *repeat {
	if p := f.folds[k]; p != nil {
		return p
	}
	if len(f.folds) >= maxFolds {
		if now.Sub(f.swept) < foldTick {
			return nil
		}
		f.swept = now
		f.sweep(now)
		if len(f.folds) >= maxFolds {
			return nil
		}
	}
	p := &repeat{since: now}
	f.folds[k] = p
	return p
}

// sweep forgets what has not repeated.
func (f *folder) sweep(now time.Time) {
	for k, p := range f.folds {
		if p.held == 0 && now.Sub(p.since) >= foldTime {
			delete(f.folds, k)
		}
	}
}

// told adds the line about p to ls, or counts it among the others if there are too many lines.
func (f *folder) told(p *repeat, now time.Time, ls lines) lines {
	if f.budget.take(now) {
		return append(ls, p.tell(now))
	}
	f.holdRest(p.held, p.last.r.Level, now)
	p.held, p.last = 0, line{}
	return ls
}

// holdRest counts n lines among the others.
func (f *folder) holdRest(n int, level slog.Level, now time.Time) {
	if f.rest.held == 0 {
		f.rest.since = now
		f.rest.last = line{f.base, slog.Record{Message: "more lines than are logged", Level: level}}
	}
	f.rest.held += n
	f.rest.last.r.Level = max(f.rest.last.r.Level, level)
	f.tickLater()
}

// tickLater has tick be called.
func (f *folder) tickLater() {
	if f.timer == nil {
		f.timer = time.AfterFunc(foldTick, f.tick)
	}
}

// tick tells what has been held back for long enough.
func (f *folder) tick() {
	f.mu.Lock()
	f.timer = nil
	ls := f.due(time.Now(), false)
	f.mu.Unlock()
	ls.write(context.Background())
}

// flush tells all that is held back.
func (f *folder) flush() {
	f.mu.Lock()
	ls := f.due(time.Now(), true)
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	f.mu.Unlock()
	ls.write(context.Background())
}

// due collects what is to be told, all of it or what has been held back for long enough, and sees to the rest.
func (f *folder) due(now time.Time, all bool) (ls lines) {
	late := func(p *repeat) bool {
		return p.held > 0 && (all || p.last.r.Level >= slog.LevelError || now.Sub(p.since) >= foldTime)
	}
	var tell []*repeat
	waits := false
	for _, p := range f.folds {
		if late(p) {
			tell = append(tell, p)
		} else if p.held > 0 {
			waits = true
		}
	}
	slices.SortFunc(tell, func(a, b *repeat) int { return a.since.Compare(b.since) })
	for _, p := range tell {
		ls = f.told(p, now, ls)
	}
	f.sweep(now)
	if late(&f.rest) {
		ls = append(ls, f.rest.tell(now))
	}
	if waits || f.rest.held > 0 {
		f.tickLater()
	}
	return ls
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
