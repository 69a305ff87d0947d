// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"container/list"
	"net"
	"sync"
)

// maxGuests is how many guests are remembered, by MAC address; the one that came longest ago makes room.
const maxGuests = 4096

// A guest is a MAC address that was a client's.
type guest struct {
	mac    [6]byte
	back   uint64   // how often it came back
	live   int      // clients that have it now
	newest *Session // of these; nil: none
	at     *list.Element
}

// guests are those of the daemon's life. Each session takes the lock twice. The zero value is ready for use.
type guests struct {
	mu     sync.Mutex
	byMAC  map[[6]byte]*guest
	recent list.List // of *guest, the newest first
	back   uint64    // the sum over all, those that were forgotten too
}

// find is the guest of this address, who is new unless it is known. The caller holds mu.
func (g *guests) find(mac [6]byte) (x *guest, known bool) {
	if x = g.byMAC[mac]; x != nil {
		g.recent.MoveToFront(x.at)
		return x, true
	}
	if g.byMAC == nil {
		g.byMAC = map[[6]byte]*guest{}
	}
	if len(g.byMAC) >= maxGuests {
		old, _ := g.recent.Remove(g.recent.Back()).(*guest)
		delete(g.byMAC, old.mac)
	}
	x = &guest{mac: mac}
	x.at = g.recent.PushFront(x)
	g.byMAC[mac] = x
	return x, false
}

// arrives notes that c's guest has mac. It was here before if it is known and no other client has it now: two at once with one
// address are no reconnect of each other. A client whose end has not been noticed yet is not there any more. One that was restored
// has been counted by another process.
func (g *guests) arrives(c *Session, mac [6]byte, restored bool) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, known := g.find(mac)
	if known && !restored && (x.live == 0 || x.newest != nil && x.newest.link.Gone()) {
		x.back++
		g.back++
	}
	x.live++
	x.newest = c
	if !restored {
		c.reconnects.Store(x.back)
	}
	return x
}

// leaves notes that c has gone, whose guest x was.
func (g *guests) leaves(c *Session, x *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x.live--
	if x.newest == c {
		x.newest = nil
	}
}

// total is how many clients' guests had been here before.
func (g *guests) total() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.back
}

// SavedGuest is a guest for the program that takes this one's place.
type SavedGuest struct {
	MAC  net.HardwareAddr `json:"mac"`
	Back uint64           `json:"back,omitempty"`
}

// save lists them, the oldest first.
func (g *guests) save() (saved []SavedGuest, back uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for e := g.recent.Back(); e != nil; e = e.Prev() {
		if x, ok := e.Value.(*guest); ok {
			saved = append(saved, SavedGuest{MAC: x.mac[:], Back: x.back})
		}
	}
	return saved, g.back
}

// restore takes over what was saved, before anybody arrives.
func (g *guests) restore(saved []SavedGuest, back uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.back = back
	for _, v := range saved {
		if len(v.MAC) == 6 {
			x, _ := g.find([6]byte(v.MAC))
			x.back = v.Back
		}
	}
}

// meet notes whose client it is, once its address is known. The reader calls it.
func (c *Session) meet() {
	if c.guest != nil {
		return
	}
	if mac := c.watch.MAC(); len(mac) == 6 {
		c.guest = c.srv.guests.arrives(c, [6]byte(mac), false)
	}
}

// part undoes meet at the end of the session.
func (c *Session) part() {
	if c.guest != nil {
		c.srv.guests.leaves(c, c.guest)
		c.guest = nil
	}
}
