// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

const (
	maxLog  = 64 << 20 // of a run, bytes; the rest is not kept
	maxTail = 60       // lines
)

// A book has what the daemon says in its log: of each client, how it went. Clients are told apart by the address of their guest,
// which one connection has at a time.
type book struct {
	r    *run
	file *os.File // a copy of the log

	mu      sync.Mutex
	written int
	last    []string
	entries map[[6]byte]*entry
}

// An entry is what there is about a connection.
type entry struct {
	s         *station
	finished  bool // the client has done with it
	summary   *ledger.Summary
	uncertain bool // what was sent to this daemon is not known
}

// suspicious is what the daemon must never log.
var suspicious = regexp.MustCompile(`^ERROR|panic|DATA RACE|internal error|fatal error|^goroutine \d|SIGSEGV|given up`)

// line takes a line of the daemon's log.
func (b *book) line(text string) {
	b.keep(text)
	if suspicious.MatchString(text) && !strings.Contains(text, "signal: killed") { // by the director
		b.r.fail(logged, "%s", text)
	}
	_, message, _ := strings.Cut(text, "| ")
	if rest, ok := strings.CutPrefix(message, "client gone "); ok {
		b.gone(rest)
	}
}

// keep appends a line to the copy and to what is shown if something happens.
func (b *book) keep(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

var field = regexp.MustCompile(`([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)`)

// gone is told of a client's end.
func (b *book) gone(text string) {
	s := &ledger.Summary{Drops: map[string]uint64{}}
	known := map[string]*uint64{
		"frames_to_net": &s.FramesToNet, "bytes_to_net": &s.BytesToNet, "frames_to_client": &s.FramesToClient,
		"bytes_to_client": &s.BytesToClient, "bytes_unsent": &s.Unsent,
	}
	var mac net.HardwareAddr
	for _, f := range field.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseUint(f[2], 10, 64)
		switch {
		case f[1] == "mac":
			mac, _ = net.ParseMAC(f[2])
		case err != nil:
		case known[f[1]] != nil:
			*known[f[1]] = n
		case strings.HasPrefix(f[1], "drop_"), strings.HasPrefix(f[1], "lost_"):
			s.Drops[f[1]] = n
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(mac) != 6 || b.entries[[6]byte(mac)] == nil {
		return // a client that never sent a frame, or one that is not the ledger's
	}
	e := b.entries[[6]byte(mac)]
	e.summary = s
	if !e.s.conn.Leaving() && !e.s.excused() && b.r.ctx.Err() == nil {
		b.r.fail(disconnected, "%s: the daemon says: %s", e.s.conn, text)
	}
	b.judge(e)
}

// judge settles a connection when it and the daemon are done with it. The caller holds the lock.
func (b *book) judge(e *entry) {
	if e.summary == nil || !e.finished {
		return
	}
	if !e.uncertain {
		b.r.ledger.Settle(e.s.conn, e.summary)
	}
	b.forget(e)
}

func (b *book) forget(e *entry) {
	b.r.ledger.Gone(e.s.conn)
	if mac := [6]byte(e.s.conn.MAC); b.entries[mac] == e {
		delete(b.entries, mac)
	}
}

// opened tells of a new connection.
func (b *book) opened(s *station) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[[6]byte(s.conn.MAC)] = &entry{s: s}
}

// finished tells that a client has done with a connection.
func (b *book) finished(s *station) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[[6]byte(s.conn.MAC)]; e != nil && e.s == s {
		e.finished = true
		b.judge(e)
	}
}

// uncertain tells that it is not known how much of what a client sent this daemon has read.
func (b *book) uncertain(s *station) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[[6]byte(s.conn.MAC)]; e != nil {
		e.uncertain = true
	}
}

// newLife tells that a daemon has ended: it will say nothing more. Connections that outlive it are carried over.
func (b *book) newLife() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.finished {
			b.forget(e)
		} else {
			e.summary, e.uncertain = nil, true
		}
	}
}
