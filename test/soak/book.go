// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

const (
	maxLog  = 64 << 20 // of a run, bytes; the rest is not kept
	maxTail = 60       // lines
)

// A book has what the daemon says in its log: of each client, how it went. Clients are told apart by the address of their guest.
type book struct {
	r    *run
	file *os.File // a copy of the log

	mu      sync.Mutex
	written int
	last    []string
	warned  map[string]int // by message
	lines   int
	entries map[[6]byte]*entry
	changed chan struct{}
}

// An entry is what there is about an address in this life of the daemon.
type entry struct {
	conns     []*ledger.Conn
	finished  int
	summaries []*ledger.Summary
	only      bool // the first summary came when there was one connection
	settled   bool
	uncertain bool // what was sent to this daemon is not known
}

func newBook(r *run, file *os.File) *book {
	return &book{r: r, file: file, warned: map[string]int{}, entries: map[[6]byte]*entry{}, changed: make(chan struct{})}
}

// suspicious is what the daemon must never log.
var suspicious = regexp.MustCompile(`^ERROR|panic|DATA RACE|internal error|fatal error|^goroutine \d|SIGSEGV|given up`)

// read reads the log of a life to its end.
func (b *book) read(log io.Reader) {
	r := bufio.NewReaderSize(log, 1<<20)
	for {
		text, err := r.ReadString('\n')
		if text != "" {
			b.line(strings.TrimSuffix(text, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func (b *book) line(text string) {
	b.keep(text)
	if suspicious.MatchString(text) {
		b.r.fail(logged, "%s", text)
	}
	level, message, ok := strings.Cut(text, "| ")
	if !ok {
		return
	}
	if strings.HasPrefix(level, "WARN") {
		b.mu.Lock()
		b.warned[withoutValues(message)]++
		b.mu.Unlock()
	}
	if rest, ok := strings.CutPrefix(message, "client gone "); ok {
		b.summary(fields(rest))
	}
}

// keep appends a line to the copy and to what is shown if something happens.
func (b *book) keep(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines++
	b.last = append(b.last, text)
	if len(b.last) > maxTail {
		b.last = b.last[1:]
	}
	if b.written += len(text) + 1; b.written < maxLog {
		_, _ = fmt.Fprintf(b.file, "%10.3f %s\n", b.r.now().Seconds(), text)
	}
}

// tail is the end of the log.
func (b *book) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.last, "\n")
}

// warnings are those so far, with how often each came, and how many lines the log has.
func (b *book) warnings() (warned map[string]int, lines int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.warned), b.lines
}

var valuesBegin = regexp.MustCompile(` [a-z_]+=.*`)

// withoutValues is a message without its keys and values.
func withoutValues(message string) string {
	message = valuesBegin.ReplaceAllString(message, "")
	return message[:min(len(message), 100)]
}

var field = regexp.MustCompile(`([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)`)

// fields takes keys and values apart.
func fields(text string) map[string]string {
	m := map[string]string{}
	for _, f := range field.FindAllStringSubmatch(text, -1) {
		m[f[1]] = f[2]
	}
	return m
}

// summary is told of a client's end.
func (b *book) summary(m map[string]string) {
	mac, err := net.ParseMAC(m["mac"])
	if err != nil || mac[0] != guestPrefix {
		return // a client that never sent a frame, or one that is not the ledger's
	}
	s := &ledger.Summary{Drops: map[string]uint64{}}
	for key, text := range m {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "frames_to_net":
			s.FramesToNet = n
		case "bytes_to_net":
			s.BytesToNet = n
		case "frames_to_client":
			s.FramesToClient = n
		case "bytes_to_client":
			s.BytesToClient = n
		case "bytes_unsent":
			s.Unsent = n
		default:
			if strings.HasPrefix(key, "drop_") || strings.HasPrefix(key, "lost_") {
				s.Drops[key] = n
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(mac)
	e.summaries = append(e.summaries, s)
	e.only = e.only || len(e.summaries) == 1 && len(e.conns) == 1
	b.judge(e)
}

// entry is that of an address. The caller holds the lock.
func (b *book) entry(mac net.HardwareAddr) *entry {
	e := b.entries[[6]byte(mac)]
	if e == nil {
		e = &entry{}
		b.entries[[6]byte(mac)] = e
	}
	return e
}

// judge settles a connection when it and the daemon are done with it, and tells which have gone. Whose summary it is cannot be
// told for sure when there are several connections with the address. The caller holds the lock.
func (b *book) judge(e *entry) {
	close(b.changed)
	b.changed = make(chan struct{})
	if len(e.summaries) >= e.finished { // not in order, if the daemon was slow
		for _, c := range e.conns[:e.finished] {
			b.r.ledger.Gone(c)
		}
	}
	if e.only && !e.settled && !e.uncertain && e.finished > 0 {
		e.settled = true
		c := e.conns[0]
		if isPath(transport(c.Transport)) {
			// What comes before the daemon has looked the path up, or after it has found it gone, is dropped and not the client's.
			c.Seen.AllSent.Store(false)
		}
		b.r.ledger.Settle(c, e.summaries[0])
	}
}

// opened tells of a new connection.
func (b *book) opened(c *ledger.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(c.MAC)
	e.conns = append(e.conns, c)
}

// finished tells that a client has done with a connection.
func (b *book) finished(c *ledger.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(c.MAC)
	e.finished++
	b.judge(e)
}

// uncertain tells that it is not known how much of what a client sent this daemon has read.
func (b *book) uncertain(c *ledger.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entry(c.MAC).uncertain = true
}

// told waits until the daemon has told the end of c, and reports it.
func (b *book) told(ctx context.Context, c *ledger.Conn, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		b.mu.Lock()
		e, changed := b.entry(c.MAC), b.changed
		done := len(e.conns) > 0 && e.conns[len(e.conns)-1] == c && len(e.summaries) >= len(e.conns)
		b.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// newLife tells that a daemon has ended: it will say nothing more. Connections that outlive it are carried over.
func (b *book) newLife() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for mac, e := range b.entries {
		for _, c := range e.conns[:e.finished] {
			b.r.ledger.Gone(c)
		}
		rest := e.conns[e.finished:]
		delete(b.entries, mac)
		if len(rest) > 0 {
			b.entries[mac] = &entry{conns: rest, uncertain: true}
		}
	}
}

// mortal is how many connections are not finished that do not outlive the daemon.
func (b *book) mortal() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		for _, c := range e.conns[e.finished:] {
			if !transport(c.Transport).outlives() {
				n++
			}
		}
	}
	return n
}

// isPath reports that clients by t are known by the path of their socket, which the daemon looks up.
func isPath(t transport) bool { return t == viaPath || t == viaPathFree }
