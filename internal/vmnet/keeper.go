// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ifid"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// retryDelays are the times between attempts to start an interface that has died; the last one goes on. A client that
// shares the anchor because there was no interface to be had begins at patientRetry.
var retryDelays = [...]time.Duration{
	0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute,
}

const patientRetry = 6 // 30 s

// settled is how long an interface must have run for its death to be no sequel of the last one.
const settled = time.Minute

// A backoff counts attempts.
type backoff struct{ attempt int }

func (b *backoff) next() time.Duration {
	d := retryDelays[min(b.attempt, len(retryDelays)-1)]
	b.attempt++
	return d
}

// keep watches over what is behind the port until the port ends.
func (p *port) keep() {
	defer close(p.kept)
	defer p.net.caught()
	defer func() {
		p.drop(p.line.Swap(nil))
		p.passOn()
	}()
	defer p.caught("keeping the port")
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	if l := p.line.Load(); l.shared != nil {
		p.waiting.attempt = patientRetry
		p.hope(retry)
	}
	for {
		var dead <-chan struct{}
		if l := p.line.Load(); l != nil && l.dev != nil {
			dead = l.dev.dead
		}
		select {
		case <-p.ctx.Done():
			return
		case <-dead:
			p.restart(retry)
		case <-retry.C:
			p.resting.Store(false)
			p.improve(retry)
		case <-p.room:
			p.owes = true
			faults.Point("vmnet.keep")
			if p.resting.Load() { // its own interface has just died
				p.passOn()
				continue
			}
			p.improve(retry)
		}
	}
}

// passOn gives a hint that the port has not followed to another one. A port that ends calls it when it does not share the
// anchor any more, so that no further hint comes.
func (p *port) passOn() {
	select {
	case <-p.room:
		p.owes = true
	default:
	}
	if p.owes {
		p.owes = false
		p.net.offerRoom()
	}
}

// hope sets the time of the next attempt to get an own interface, unless nobody is to have one.
func (p *port) hope(retry *time.Timer) {
	if p.net.opts.Interfaces == InterfacesClient {
		retry.Reset(p.waiting.next())
	}
}

// restart replaces an interface that has died: by a new one, or else by the anchor.
func (p *port) restart(retry *time.Timer) {
	l := p.line.Swap(nil)
	p.net.quiet.warn("a client's interface has died, starting it again", "client", p.name, "error", l.dev.cause)
	p.net.restarts.Add(1)
	if time.Since(l.dev.began) > settled {
		p.waiting.attempt = 0
	}
	delay := p.waiting.next()
	p.drop(l)
	if delay == 0 && p.own() == nil {
		return
	}
	if p.ctx.Err() != nil {
		return
	}
	p.resting.Store(true)
	p.shareOrWait()
	if delay == 0 {
		delay = p.waiting.next()
	}
	retry.Reset(delay)
}

// improve tries to get an own interface for a port that has none. A port that ends meanwhile still owes the try.
func (p *port) improve(retry *time.Timer) {
	if l := p.line.Load(); l != nil && l.dev != nil {
		p.owes = false // the hint is older than what this port told the next one when it got its interface
		return
	}
	if !p.net.takeTurn(p.ctx) {
		return
	}
	err := p.own()
	p.net.endTurn()
	if err == nil {
		p.owes = false
		p.net.promoted.Add(1)
		p.net.log.Info("a client has an interface of its own again", "client", p.name)
		p.net.offerRoom() // another one may be lucky too
		return
	}
	if p.ctx.Err() == nil {
		p.owes = false
		if p.line.Load() == nil {
			p.shareOrWait()
		}
		p.hope(retry)
	}
}

// own starts an interface for the port and puts it in the place of what is behind it.
func (p *port) own() error {
	old := p.line.Load()
	moving := old != nil && old.shared != nil
	if moving { // from now on a frame may come by both
		old.sieve.Store(&sieve{own: &old.seen, doubles: newDoubles()})
	}
	l, err := p.net.openOwn(p.ctx, p)
	if err != nil {
		if moving {
			old.sieve.Store(nil)
		}
		return err
	}
	if moving {
		p.moveAway(old, l)
	} else {
		p.put(l)
		p.drop(old)
	}
	p.describe(l)
	l.dev.rd.begin()
	if moving {
		time.AfterFunc(sieveTime, func() { l.sieve.Store(nil) })
	}
	return nil
}

// moveAway puts l in the place of old, which shares the anchor, and sees to it that nothing is lost: frames for the port go
// to l from now on, and what the anchor has for it is delivered. What both have for it is delivered once.
func (p *port) moveAway(old, l *line) {
	d := old.sieve.Load().doubles
	l.sieve.Store(&sieve{own: &old.seen, echo: true, doubles: d, second: true})
	old.sieve.Store(&sieve{own: &old.seen, echo: true, doubles: d})
	p.put(l)
	p.net.await(old.sends.Shut())
	if b := old.seen.announcement(); b.Len() > 0 && l.dev.writes.Enter() {
		if out, err := newOutlet(maxSeen, &counters{}); err == nil {
			out.send(l.dev, b)
			out.free()
		}
		l.dev.writes.Leave()
	}
	p.net.hub.settle()
	p.drop(old)
}

// share puts the anchor behind the port.
func (p *port) share() error {
	l, err := p.net.hub.join(p)
	if err != nil { // the network ends, or there is no memory
		return err
	}
	p.net.hub.awaitRead()
	p.mu.Lock()
	p.bridged = l.shared
	p.mu.Unlock()
	p.put(l)
	p.describe(l)
	return nil
}

// shareOrWait shares the anchor if that is possible.
func (p *port) shareOrWait() {
	if err := p.share(); err != nil {
		p.net.quiet.warn("a client has no network, trying again", "client", p.name, "error", err)
	}
}

// drop ends what was behind the port. It waits for a device to stop, so that its identity is free, but not for ever.
func (p *port) drop(l *line) {
	switch {
	case l == nil:
	case l.shared != nil:
		p.net.hub.leave(p, l)
		p.mu.Lock()
		p.bridged = nil
		p.past.add(l.shared.Stats())
		p.mu.Unlock()
	default:
		p.net.retire(l)
	}
}

// describe sets what Info tells.
func (p *port) describe(l *line) {
	i := p.net.info
	// While it shares the anchor a client has no interface. Its identity stays, for the MAC address of its guest depends on it.
	f := vnet.PortInfo{MTU: i.MTU, MaxFrame: i.MaxFrame, MAC: ifid.MAC(p.id), InterfaceID: ifid.String(p.id), Kind: vnet.InterfaceShared}
	if l.dev != nil {
		f.MAC, f.InterfaceID, f.Kind = l.dev.params.MAC, l.dev.params.InterfaceID, vnet.InterfaceOwn
		f.MaxFrame = min(f.MaxFrame, l.dev.maxPacket)
		f.MTU = min(f.MTU, f.MaxFrame-frame.MinLen)
	}
	p.facts.Store(&f)
}

// first puts something behind a new port.
func (p *port) first() error {
	if p.net.opts.Interfaces != InterfacesClient {
		return p.share()
	}
	rooms := p.net.rooms.Load()
	err := p.own()
	if err == nil || p.ctx.Err() != nil {
		return err
	}
	p.net.quiet.warn("no interface for a client, it shares one with others", "client", p.name, "error", err)
	if err = p.share(); err == nil && p.net.rooms.Load() != rooms {
		p.hint() // the room that came up since was not offered to this port
	}
	return err
}

// hint tells the port that there may be an interface for it.
func (p *port) hint() {
	select {
	case p.room <- struct{}{}:
	default: // it has a hint that it has not followed yet
	}
}

// retire stops l's interface and frees what belongs to l. It waits for that, but not for ever.
func (n *Network) retire(l *line) {
	idle, stopped := l.sends.Shut(), l.dev.stop()
	n.spawn(func() {
		<-stopped
		n.ownCount.Add(-1)
		n.freed()
		<-idle
		if l.out != nil {
			l.out.free()
		}
	})
	n.await(stopped)
}

// freed offers the room of an interface that has stopped.
func (n *Network) freed() {
	n.rooms.Add(1) // before the offer: see first
	n.offerRoom()
}

// offerRoom tells the client that has shared the anchor longest that there may be an interface for it.
func (n *Network) offerRoom() {
	if n.opts.Interfaces != InterfacesClient || n.ctx.Err() != nil {
		return
	}
	n.hub.hintOldest()
}

// takeTurn waits until no other client tries to get an own interface again.
func (n *Network) takeTurn(ctx context.Context) bool {
	select {
	case n.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (n *Network) endTurn() { <-n.turn }

// openOwn starts an interface for p, whose reader is laid out but does not run.
func (n *Network) openOwn(ctx context.Context, p *port) (*line, error) {
	d, err := n.start(ctx, p.name, p.id)
	if err != nil {
		return nil, err
	}
	n.ownCount.Add(1)
	l := &line{dev: d}
	l.sends.Init()
	d.rd, err = newReader(d, func(b frame.Batch) { p.deliverFrom(l, b, d.maxPacket) }, func(n int) { p.counts.lostOdd.Add(uint64(n)) })
	if err == nil {
		l.out, err = newOutlet(d.writeMax, &p.counts)
	}
	if err != nil {
		n.retire(l)
		return nil, err
	}
	return l, nil
}
