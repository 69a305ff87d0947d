// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A hub holds the anchor, and joins the clients that share it by a bridge whose uplink it is. While nobody shares it the
// anchor is not read and has no events.
type hub struct {
	net *Network

	mu     sync.Mutex // guards what follows; held while reading is switched on and off
	dev    *device    // the anchor, nil while it is being started again
	br     *bridge.Bridge
	up     *bridge.Port // the anchor's
	ports  []*port      // that share, the longest first
	closed bool

	sharing atomic.Int32 // length of ports, for who must not wait

	// lines find the client that a frame for the anchor comes from.
	linesMu sync.RWMutex
	lines   map[bridge.PortID]*line
	out     *device // dev, for writers; nil while it is being started again
}

// join attaches p to the bridge.
func (h *hub) join(p *port) (*line, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, vnet.ErrClosed
	}
	if err := h.build(); err != nil {
		return nil, err
	}
	l := &line{out: newOutlet(h.net.writeMax, &p.counts)}
	l.sends.Init()
	if len(h.ports) == 0 {
		h.read(true)
	}
	var err error
	if l.shared, err = h.br.Attach(bridge.PortOptions{Name: p.name, MACs: p.macs, Isolated: h.net.opts.Isolate}, sharing{p}); err != nil {
		if len(h.ports) == 0 {
			h.deafen()
		}
		return nil, err
	}
	h.linesMu.Lock()
	h.lines[l.shared.ID()] = l
	h.linesMu.Unlock()
	h.ports = append(h.ports, p)
	h.sharing.Store(int32(len(h.ports)))
	return l, nil
}

// build makes the bridge, the first time.
func (h *hub) build() error {
	if h.br != nil {
		return nil
	}
	br := bridge.New(bridge.Options{
		MaxClients: h.net.opts.MaxClients, Log: slog.New(moveFilter{h.net.log.Handler()}), Find: h.find,
	})
	up, err := br.Attach(bridge.PortOptions{Name: uplinkName, Trusted: true}, uplink{h})
	if err != nil {
		return err
	}
	h.br, h.up, h.lines = br, up, map[bridge.PortID]*line{}
	return nil
}

// find leads frames for a client that has an interface of its own to the anchor: the bridge may never have heard from it.
func (h *hub) find(mac uint64) *bridge.Port {
	for _, p := range *h.net.list.Load() {
		if l := p.line.Load(); l != nil && l.dev != nil && l.seen.contains(mac) {
			return h.up
		}
	}
	return nil
}

// leave detaches p, whose line l is.
func (h *hub) leave(p *port, l *line) {
	l.sends.Shut()
	_ = l.shared.Close() // waits for deliveries, never fails
	h.mu.Lock()
	h.ports = slices.DeleteFunc(h.ports, func(q *port) bool { return q == p })
	h.sharing.Store(int32(len(h.ports)))
	if len(h.ports) == 0 {
		h.deafen()
	}
	h.mu.Unlock()
	h.linesMu.Lock()
	delete(h.lines, l.shared.ID())
	h.linesMu.Unlock()
}

// read begins to read the anchor, if there is one. The caller holds mu.
func (h *hub) read(stale bool) {
	if h.dev == nil || h.dev.rd != nil { // or it hangs, and is dead
		return
	}
	rd := newReader(h.dev, h.up.Send, func(int) {})
	rd.stale = stale // what came while nobody listened
	h.dev.rd = rd
	rd.begin()
}

// errHangs is why an anchor is replaced whose calls do not come back.
var errHangs = errors.New("a call of vmnet.framework does not return")

// awaitRead waits until the anchor is read, if it is to be. The caller does not hold mu.
func (h *hub) awaitRead() {
	h.mu.Lock()
	d := h.dev
	var rd *reader
	if d != nil {
		rd = d.rd
	}
	h.mu.Unlock()
	if rd != nil && !h.net.await(rd.ready) {
		d.die(errHangs)
	}
}

// deafen ends the reading of the anchor. The caller holds mu.
func (h *hub) deafen() {
	if h.dev == nil || h.dev.rd == nil {
		return
	}
	d, off := h.dev, make(chan struct{})
	h.net.work.Go(func() {
		defer close(off)
		if err := d.ifc.Notify(false); err != nil {
			d.die(err)
		}
	})
	if h.net.await(off) && h.net.await(d.rd.halt()) {
		d.rd = nil
		return
	}
	d.die(errHangs) // it keeps its reader, which is not to be joined by another one
}

// set puts d in the place of the anchor, nil while there is none.
func (h *hub) set(d *device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dev = d
	h.linesMu.Lock()
	h.out = d
	h.linesMu.Unlock()
	if d != nil && len(h.ports) > 0 {
		h.read(false)
	}
}

// keep starts the anchor again when it dies, until the network ends.
func (h *hub) keep(ctx context.Context, d *device) {
	for wait := (backoff{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-d.dead:
		}
		h.net.log.Warn("the anchor interface has died, starting it again", "error", d.cause)
		h.net.restarts.Add(1)
		if time.Since(d.began) > settled {
			wait.attempt = 0
		}
		h.set(nil)
		h.net.await(d.stop())
		if d = h.revive(ctx, &wait); d == nil {
			return
		}
		h.set(d)
	}
}

// renewAfter is how often the anchor may fail to start before the network object is taken for dead.
const renewAfter = 3

// revive starts a new anchor, trying until the network ends.
func (h *hub) revive(ctx context.Context, wait *backoff) *device {
	for failed := 0; ; {
		t := time.NewTimer(min(wait.next(), retryDelays[patientRetry]))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		if h.net.forgets() {
			h.net.renew()
		}
		d, err := h.net.startAnchor(ctx)
		if err == nil {
			return d // also when the network ends: then Close stops it
		}
		h.net.log.Warn("the anchor interface could not be started again", "error", err)
		if failed++; failed >= renewAfter {
			h.net.renew()
		}
	}
}

// close ends the sharing and returns the anchor, which the caller stops.
func (h *hub) close() *device {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.br != nil {
		_ = h.br.Close()
	}
	d := h.dev
	h.dev = nil
	return d
}

// shared is how many clients share the anchor.
func (h *hub) shared() int { return int(h.sharing.Load()) }

// hintOldest tells the port that has shared the anchor longest and may move that there may be an interface for it.
func (h *hub) hintOldest() {
	if h.net.opts.Interfaces != InterfacesClient || h.net.ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.ports {
		if !p.resting.Load() {
			p.hint()
			return
		}
	}
}

// sharing is a port as a sink of the bridge. The port itself leaves out what its client does not take.
type sharing struct {
	port *port
}

// MaxFrame implements frame.Sink.
func (sharing) MaxFrame() int { return frame.MaxLen }

// Deliver implements frame.Sink.
func (s sharing) Deliver(b frame.Batch) { s.port.deliver(b, frame.MaxLen) }

// uplinkName is the anchor's name in the bridge.
const uplinkName = "vmnet"

// A moveFilter keeps the bridge from warning of addresses that move between a client and the anchor: they do so each time a
// client begins or ends to share it.
type moveFilter struct{ slog.Handler }

// Handle implements slog.Handler.
func (f moveFilter) Handle(ctx context.Context, r slog.Record) error {
	ours := false
	r.Attrs(func(a slog.Attr) bool {
		ours = (a.Key == "from" || a.Key == "to") && a.Value.String() == uplinkName
		return !ours
	})
	if ours {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}
