// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Summary is what the network says of a connection at its end.
type Summary struct {
	FramesToNet, BytesToNet       uint64
	FramesToClient, BytesToClient uint64
	// Unsent is how much of what is counted as for the client was left in a queue at the end, in bytes of any form.
	Unsent uint64
	// Drops by reason: "drop_…" of what came from the client, or was for it.
	Drops map[string]uint64
}

// The reasons for drops of frames for the client. All others are of frames from it.
const (
	dropQueueFull = "drop_queue_full"
	lostOversize  = "lost_oversize"
	dropRunt      = "drop_runt"
)

// toClient is how many frames for the client were dropped.
func (s *Summary) toClient() uint64 { return s.Drops[dropQueueFull] + s.Drops[lostOversize] }

// fromClient is how many valid frames from the client were dropped.
func (s *Summary) fromClient() (n uint64) {
	for reason, d := range s.Drops {
		if reason != dropQueueFull && reason != lostOversize && reason != dropRunt {
			n += d
		}
	}
	return n
}

// String names the connection as in messages.
func (c *Conn) String() string {
	return fmt.Sprintf("connection %d (guest %d, %s, %s)", c.ID, c.Guest, c.Transport, c.MAC)
}

// Settle compares what the network says of c with what c's client saw, once neither changes any more.
func (l *Ledger) Settle(c *Conn, s *Summary) {
	l.mu.Lock()
	l.ended[c.ID] = s
	l.mu.Unlock()
	l.Stats.Settled.Add(1)
	check := func(what string, network, client uint64, exact bool) {
		if network == client || !exact && network <= client {
			return
		}
		l.Fail(Miscounted, "%s: %s: the network says %d, the client %d (exactly: %t)", c, what, network, client, exact)
	}
	v := &c.Seen
	sent := v.AllSent.Load()
	check("frames from the client", s.FramesToNet, v.SentFrames.Load(), sent)
	check("bytes from the client", s.BytesToNet, v.SentBytes.Load(), sent)
	check("runts from the client", s.Drops[dropRunt], 0, sent)
	// What came may have been left in a queue, if the client did not wait for it: then it is not known how much of that came.
	frames, bytes := v.ReceivedFrames.Load(), v.ReceivedBytes.Load()
	least := uint64(0)
	if v.AllReceived.Load() {
		least = s.BytesToClient - min(s.BytesToClient, s.Unsent)
	}
	if frames > s.FramesToClient || bytes > s.BytesToClient || bytes < least || s.Unsent == 0 && least > 0 && frames != s.FramesToClient {
		l.Fail(Miscounted, "%s received %d frames, %d bytes; the network says that it sent %d, %d, of which %d bytes were left (all received: %t)",
			c, frames, bytes, s.FramesToClient, s.BytesToClient, s.Unsent, v.AllReceived.Load())
	}
}

// EndLife ends a life of the network: what is missing is compared with what was dropped, for connections that are finished and
// of which the network has told. Those that had gone before the life began are forgotten.
func (l *Ledger) EndLife() {
	l.mu.Lock()
	conns := slices.Collect(maps.Values(l.conns))
	ended := l.ended
	l.ended = map[uint32]*Summary{}
	l.mu.Unlock()
	for _, c := range conns {
		if s := ended[c.ID]; s != nil && c.done.Load() {
			l.gaps(c, s, ended)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, c := range l.conns {
		if c.gone.Load() && c.old {
			delete(l.conns, id)
			if l.owners[[6]byte(c.MAC)] == c {
				delete(l.owners, [6]byte(c.MAC))
			}
		}
		c.old = true
	}
}

// gaps compares what c misses with what was dropped on the way to it.
func (l *Ledger) gaps(c *Conn, s *Summary, ended map[uint32]*Summary) {
	l.Stats.GapConns.Add(1)
	var lost uint64
	var text strings.Builder
	for id, x := range c.flows {
		if x.lost == 0 || x.known {
			continue
		}
		x.known = true
		from := ended[id]
		if from == nil { // what was dropped of its frames is not known
			continue
		}
		if d := from.fromClient(); x.lost > d {
			lost += x.lost - d
			_, _ = fmt.Fprintf(&text, "; %d from connection %d, of whose frames %d were dropped, first %s", x.lost, id, d, x.first)
		}
	}
	if lost > s.toClient() {
		l.Fail(Lost, "%s misses %d frames, and %d for it were dropped%s", c, lost, s.toClient(), text.String())
	}
}
