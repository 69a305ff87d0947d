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
	defer func() { p.drop(p.line.Swap(nil)) }()
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
			faults.Point("vmnet.keep")
			if !p.resting.Load() { // else its own interface has just died
				p.improve(retry)
			}
		}
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
	p.net.log.Warn("a client's interface has died, starting it again", "client", p.name, "error", l.dev.cause)
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

// improve tries to get an own interface for a port that has none.
func (p *port) improve(retry *time.Timer) {
	if l := p.line.Load(); l != nil && l.dev != nil {
		return
	}
	if p.own() == nil {
		p.net.promoted.Add(1)
		p.net.log.Info("a client has an interface of its own again", "client", p.name)
		p.net.hub.hintOldest() // another one may be lucky too
		return
	}
	if p.ctx.Err() == nil {
		if p.line.Load() == nil {
			p.shareOrWait()
		}
		p.hope(retry)
	}
}

// moveGap is how long a client that moves from the anchor to an own interface gets nothing, so that what macOS brings to one
// of the two a little later than to the other does not come twice.
const moveGap = 2 * time.Millisecond

// own starts an interface for the port and puts it in the place of what is behind it. A client that shared the anchor gets
// nothing for moveGap, and no frame twice.
func (p *port) own() error {
	l, err := p.net.openOwn(p.ctx, p)
	if err != nil {
		return err
	}
	old := p.line.Swap(nil)
	p.drop(old)
	if old != nil && old.shared != nil {
		time.Sleep(moveGap)
		l.dev.rd.discard()
		l.announce(&old.seen)
	}
	p.line.Store(l)
	p.describe(l)
	l.dev.rd.begin()
	return nil
}

// announce tells the bridge of macOS that the addresses are behind l's interface now.
func (l *line) announce(macs *seenMACs) {
	if b := macs.announcement(); b.Len() > 0 && l.dev.writes.Enter() {
		l.out.send(l.dev, b)
		l.dev.writes.Leave()
	}
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
	p.line.Store(l)
	p.describe(l)
	return nil
}

// shareOrWait shares the anchor if that is possible.
func (p *port) shareOrWait() {
	if err := p.share(); err != nil {
		p.net.log.Warn("a client has no network, trying again", "client", p.name, "error", err)
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
	err := p.own()
	if err == nil || p.ctx.Err() != nil {
		return err
	}
	p.net.log.Warn("no interface for a client, it shares one with others", "client", p.name, "error", err)
	return p.share()
}

// hint tells the port that there may be an interface for it. One that gets lost costs it until its next attempt.
func (p *port) hint() {
	select {
	case p.room <- struct{}{}:
	default: // it has a hint that it has not followed yet
	}
}

// retire stops l's interface. It waits for that, but not for ever.
func (n *Network) retire(l *line) {
	l.sends.Shut()
	stopped := l.dev.stop()
	n.work.Go(func() {
		<-stopped
		n.ownCount.Add(-1)
		n.hub.hintOldest()
	})
	n.await(stopped)
}

// openOwn starts an interface for p, whose reader is laid out but does not run.
func (n *Network) openOwn(ctx context.Context, p *port) (*line, error) {
	d, err := n.start(ctx, p.name, p.id)
	if err != nil {
		return nil, err
	}
	n.ownCount.Add(1)
	l := &line{dev: d, out: newOutlet(d.writeMax, &p.counts)}
	l.sends.Init()
	d.rd = newReader(d, func(b frame.Batch) { p.deliver(b, d.maxPacket) }, func(n int) { p.counts.lostOdd.Add(uint64(n)) })
	return l, nil
}
