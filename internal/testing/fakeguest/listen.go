// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// A Listener collects the frames of a Guest that match. Frames to other stations' addresses count too: the network card
// is promiscuous, so that one can see what should not have come.
type Listener struct {
	g     *Guest
	match func(f []byte) bool
	ch    chan []byte
}

// Listen begins to collect frames for which match returns true; nil matches all. match gets frames without prefix, keeps
// none and does not block. Beyond queueLen frames that were not taken, new ones are dropped.
func (g *Guest) Listen(match func(f []byte) bool) *Listener {
	if match == nil {
		match = func([]byte) bool { return true }
	}
	l := &Listener{g: g, match: match, ch: make(chan []byte, queueLen)}
	g.mu.Lock()
	g.listeners[l] = struct{}{}
	g.mu.Unlock()
	return l
}

// Close ends the collecting. What was collected can still be taken.
func (l *Listener) Close() {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	delete(l.g.listeners, l)
}

// Next is the next frame, or ErrTimeout, or the reason for which the link ended.
func (l *Listener) Next(timeout time.Duration) ([]byte, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case f := <-l.ch:
		return f, nil
	default:
	}
	select {
	case f := <-l.ch:
		return f, nil
	case <-l.g.stop:
		return nil, fmt.Errorf("wait for a frame: %w", net.ErrClosed)
	case <-l.g.done:
		// Frames received before the end are still on their way through the queue.
		select {
		case f := <-l.ch:
			return f, nil
		case <-time.After(100 * time.Millisecond):
			return nil, fmt.Errorf("wait for a frame: link ended: %w", l.g.err)
		}
	case <-t.C:
		return nil, fmt.Errorf("wait for a frame for %s: %w", timeout, ErrTimeout)
	}
}

// Collect takes what matches for the time d and returns it.
func (l *Listener) Collect(d time.Duration) (frames [][]byte) {
	end := time.Now().Add(d)
	for {
		f, err := l.Next(time.Until(end))
		if err != nil {
			return frames
		}
		frames = append(frames, f)
	}
}

// dispatch hands f to the listeners it matches. They are called without the lock: match may ask for the Guest's address.
func (g *Guest) dispatch(f []byte) {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.listeners))
	g.mu.Unlock()
	for _, l := range all {
		if !l.match(f) {
			continue
		}
		select {
		case l.ch <- f:
		default:
		}
	}
}

// exchange sends f and waits for the first packet that matches. Packets with a wrong checksum or length match nothing, nor do those
// to another station.
func (g *Guest) exchange(f []byte, match func(p *Packet) bool) (Packet, error) {
	l := g.Listen(func(f []byte) bool {
		p, err := Parse(f)
		return err == nil && g.accepts(p.Dst) && match(&p)
	})
	defer l.Close()
	if err := g.Send(f); err != nil {
		return Packet{}, err
	}
	answer, err := l.Next(g.opts.Timeout)
	if err != nil {
		return Packet{}, err
	}
	return Parse(answer)
}
