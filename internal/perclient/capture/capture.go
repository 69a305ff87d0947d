// SPDX-License-Identifier: Apache-2.0

// Package capture copies frames on their way into bounded memory, and writes them as pcapng to a reader. What is captured never
// waits for that: when memory is full, frames are left out and counted. For the command it compiles filters, and takes the daemon's
// pcapng apart: into whole blocks for a file, or into a line for each frame.
package capture

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// maxSessions is how many captures may run at once.
	maxSessions = 4

	// memory is what each of them has for frames that are not yet written, in bytes.
	memory = 4 << 20
)

// errTooMany is that maxSessions run.
var errTooMany = errors.New("4 captures run already: end one of them")

// Options are those of a Hub.
type Options struct {
	// Watch has the hub's FromClient and ToClient called, or not any more. It is called in order.
	Watch func(on bool)
	// Describe is called for each capture, and what it returns then tells of a client that is new in that.
	Describe    func() func(id uint64) Description
	Application string // for the file
	Log         *slog.Logger
}

// A Hub shows the clients' frames to all captures. It is a perclient.tap while there are any.
type Hub struct {
	o    Options
	list atomic.Pointer[[]*Session] // that run; never changed in place

	mu      sync.Mutex
	started uint64
	stalled uint64
}

// NewHub makes one without captures.
func NewHub(o Options) *Hub {
	h := &Hub{o: o}
	h.list.Store(new([]*Session))
	return h
}

// FromClient shows frames that a client sends to the network. It copies and does not wait.
func (h *Hub) FromClient(id uint64, b frame.Batch) { h.see(id, fromClient, b) }

// ToClient shows frames that the network has for a client. It copies and does not wait.
func (h *Hub) ToClient(id uint64, b frame.Batch) { h.see(id, toClient, b) }

func (h *Hub) see(id uint64, dir direction, b frame.Batch) {
	for _, s := range *h.list.Load() {
		s.see(id, dir, b)
	}
}

// Start begins a capture by a request that DecodeRequest has checked: what the clients send from here on is kept for Run or Discard,
// one of which the caller calls. An error is errTooMany.
func (h *Hub) Start(q Request) (*Session, error) {
	s := newSession(h, q)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := *h.list.Load()
	if len(all) >= maxSessions {
		return nil, errTooMany
	}
	h.started++
	all = append(slices.Clone(all), s)
	h.list.Store(&all)
	if len(all) == 1 {
		h.o.Watch(true)
	}
	return s, nil
}

// remove forgets s, which ended so.
func (h *Hub) remove(s *Session, res result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*h.list.Load()), func(x *Session) bool { return x == s })
	h.list.Store(&all)
	if len(all) == 0 {
		h.o.Watch(false)
	}
	if errors.Is(res.Reason, errStalled) {
		h.stalled++
		h.o.Log.Warn("a capture ended: its reader takes nothing", "frames", res.Frames, "dropped", res.Dropped)
	}
}

// stats are numbers of a Hub.
type stats struct {
	Running int    // captures now
	Started uint64 // captures, all that ever began
	Stalled uint64 // captures whose readers stopped reading
}

// Stats tells how many captures there are and were.
func (h *Hub) Stats() stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return stats{Running: len(*h.list.Load()), Started: h.started, Stalled: h.stalled}
}
