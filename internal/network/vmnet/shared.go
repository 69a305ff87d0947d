// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
)

// A sharedInterface is the anchor behind a bridge that joins the clients which share it. While there are none the anchor is
// not read and has no events. To the bridge it is the sink of the anchor's port.
type sharedInterface struct {
	net    *Network
	anchor atomic.Pointer[iface] // nil while it is being started again
	count  atomic.Int64          // of ports

	mu    sync.Mutex // guards what follows, and changes of the above; held while reading is switched on and off
	br    *bridge.Bridge
	up    *bridge.Port // the anchor's
	ports []*port      // that share, the longest first
}

// join attaches p to the bridge, and returns when the anchor is read, if there is one.
func (s *sharedInterface) join(p *port) error {
	read, err := s.attach(p)
	if read != nil && !s.net.await(read.ready) {
		read.from.die(errHangs)
	}
	return err
}

// attach attaches p to the bridge. The result is the reader of the anchor, nil if there is none.
func (s *sharedInterface) attach(p *port) (*reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net.ctx.Err() != nil {
		return nil, network.ErrClosed
	}
	if err := s.build(); err != nil {
		return nil, err
	}
	b, err := s.br.Attach(bridge.PortOptions{Name: p.name, Source: p, MACs: p.macs, Isolated: s.net.opts.Isolate, Hold: p.hold}, p)
	if err != nil {
		return nil, err
	}
	s.ports = append(s.ports, p)
	if s.count.Add(1) == 1 {
		s.read(true) // what came while it was not read is stale
	}
	p.shared.Store(b)
	if i := s.anchor.Load(); i != nil {
		return i.reader, nil
	}
	return nil, nil
}

// build makes the bridge, the first time.
func (s *sharedInterface) build() error {
	if s.br != nil {
		return nil
	}
	br := bridge.New(bridge.Options{Log: s.net.log, Find: s.find})
	up, err := br.Attach(bridge.PortOptions{Trusted: true}, s)
	if err == nil {
		s.br, s.up = br, up
	}
	return err
}

// find leads frames for a client that has an interface of its own to the anchor: the bridge may never have heard from it.
func (s *sharedInterface) find(mac uint64) *bridge.Port {
	for _, p := range *s.net.ports.Load() {
		if p.own.Load() != nil && p.seen.contains(mac) {
			return s.up
		}
	}
	return nil
}

// leave detaches p, which shares the anchor.
func (s *sharedInterface) leave(p *port) {
	p.mu.Lock()
	b := p.shared.Swap(nil)
	p.past = p.past.Plus(b.Stats())
	p.mu.Unlock()
	_ = b.Close() // waits for deliveries, never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports = slices.DeleteFunc(s.ports, func(q *port) bool { return q == p })
	if s.count.Add(-1) == 0 {
		s.deafen()
	}
}

// read begins to read the anchor, if there is one. The caller holds mu.
func (s *sharedInterface) read(stale bool) {
	if i := s.anchor.Load(); i != nil && i.reader == nil { // else it hangs, and is dead
		i.read(stale, s.up.Send, new(atomic.Uint64))
	}
}

// errHangs is why an anchor is replaced whose calls do not come back.
var errHangs = errors.New("a call of vmnet.framework does not return")

// deafen ends the reading of the anchor. The caller holds mu.
func (s *sharedInterface) deafen() {
	i := s.anchor.Load()
	switch {
	case i == nil || i.reader == nil:
	case s.net.await(i.reader.halt()):
		i.reader = nil
	default:
		i.die(errHangs) // it keeps its reader, which is not to be joined by another one
	}
}

// set puts i in the place of the anchor, nil while there is none. It reports false when the network has ended.
func (s *sharedInterface) set(i *iface) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net.ctx.Err() != nil {
		return false
	}
	s.anchor.Store(i)
	if len(s.ports) > 0 {
		s.read(false)
	}
	return true
}

// keep starts the anchor again when it dies, until the network ends.
func (s *sharedInterface) keep(i *iface) {
	n := s.net
	for wait := (backoff{}); ; {
		select {
		case <-n.ctx.Done():
			return
		case <-i.dead:
		}
		n.log.Warn("the anchor interface has died, starting it again", "error", i.cause)
		n.restarts.Add(1)
		if time.Since(i.began) > settled {
			wait.attempt = 0
		}
		if !s.set(nil) {
			return
		}
		n.await(i.stop())
		if i = s.revive(&wait); i == nil {
			return
		}
		if !s.set(i) {
			i.stop()
			return
		}
	}
}

// renewAfter is how often the anchor may fail to start before the network object is taken for dead.
const renewAfter = 3

// revive starts a new anchor, trying until the network ends.
func (s *sharedInterface) revive(wait *backoff) *iface {
	n := s.net
	for failed := 0; ; {
		if sleep(n.ctx, min(wait.next(), retryDelays[patientRetry])) != nil {
			return nil
		}
		if n.forgets() {
			n.renew()
		}
		i, err := n.startAnchor(n.ctx)
		if err == nil {
			return i
		}
		n.log.Warn("the anchor interface could not be started again", "error", err)
		if failed++; failed >= renewAfter {
			n.renew()
		}
	}
}

// close ends the sharing and returns the anchor, which the caller stops. The network has ended.
func (s *sharedInterface) close() *iface {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.br != nil {
		_ = s.br.Close()
	}
	return s.anchor.Swap(nil)
}

// hintOldest tells the port that has shared the anchor longest and may move that there may be an interface for it. A hint that
// gets lost costs it until its next attempt.
func (s *sharedInterface) hintOldest() {
	if s.net.opts.Interfaces != interfacesClient || s.net.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		if p.resting.Load() {
			continue
		}
		select {
		case p.room <- struct{}{}:
		default: // it has a hint that it has not followed yet
		}
		return
	}
}

// MaxFrame implements frame.Sink. What is too long for the anchor is dropped by the writer.
func (*sharedInterface) MaxFrame() int { return frame.MaxLen }

// Deliver implements frame.Sink; the bridge calls DeliverFrom.
func (*sharedInterface) Deliver(frame.Batch) {}

// DeliverFrom implements bridge.sourceSink: it runs on the goroutine of the client that sends, within Send.
func (s *sharedInterface) DeliverFrom(source any, b frame.Batch) {
	source.(*port).writer.send(s.anchor.Load(), b)
}
