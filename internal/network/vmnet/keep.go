// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// retryDelays are the times between attempts to start an interface that has died; the last one goes on. A client that
// shares the anchor because there was no room for another interface begins at patientRetry.
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

// first puts something behind a new port.
func (p *port) first() error {
	if p.net.opts.Interfaces != interfacesClient {
		return p.net.shared.join(p)
	}
	err := p.start()
	if err == nil || p.ctx.Err() != nil {
		return err
	}
	p.net.log.Warn("no interface for a client, it shares one with others", "client", p.name, "error", err)
	return p.net.shared.join(p)
}

// keep watches over what is behind the port until the port ends.
func (p *port) keep() {
	defer close(p.kept)
	defer p.leave()
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	if p.own.Load() == nil {
		p.waiting.attempt = patientRetry
		p.hope(retry)
	}
	for {
		var dead <-chan struct{}
		if i := p.own.Load(); i != nil {
			dead = i.dead
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
			if !p.resting.Load() { // else its own interface has just died
				p.improve(retry)
			}
		}
	}
}

// hope sets the time of the next attempt to get an own interface, unless no client is to have one.
func (p *port) hope(retry *time.Timer) {
	if p.net.opts.Interfaces == interfacesClient {
		retry.Reset(p.waiting.next())
	}
}

// restart replaces an interface that has died: by a new one, or else by the shared one.
func (p *port) restart(retry *time.Timer) {
	died := p.own.Load()
	p.net.log.Warn("a client's interface has died, starting it again", "client", p.name, "error", died.cause)
	p.net.restarts.Add(1)
	if time.Since(died.began) > settled {
		p.waiting.attempt = 0
	}
	p.leave()
	delay := p.waiting.next()
	if delay == 0 {
		if p.start() == nil {
			return
		}
		delay = p.waiting.next()
	}
	if p.ctx.Err() == nil {
		p.resting.Store(true)
		p.share()
		retry.Reset(delay)
	}
}

// improve tries to get an own interface for a port that has none.
func (p *port) improve(retry *time.Timer) {
	if p.own.Load() != nil {
		return
	}
	if p.start() == nil {
		p.net.promoted.Add(1)
		p.net.log.Info("a client has an interface of its own again", "client", p.name)
		p.net.shared.hintOldest() // another one may be lucky too
		return
	}
	if p.ctx.Err() == nil {
		if p.shared.Load() == nil {
			p.share()
		}
		p.hope(retry)
	}
}

// moveGap is how long a client that moves from the shared interface to its own gets nothing, so that what macOS brings to one of
// the two a little later than to the other does not come twice.
const moveGap = 2 * time.Millisecond

// start starts an interface for the port and puts it in the place of what is behind it. A client that shared the anchor gets
// nothing for moveGap, and no frame twice; the bridge of macOS is told where its addresses are now.
func (p *port) start() error {
	i, err := p.net.start(p.ctx, p.name, p.id)
	if err != nil {
		return err
	}
	shared := p.shared.Load() != nil
	p.leave()
	if shared {
		time.Sleep(moveGap)
	}
	i.read(shared, p.Deliver, &p.counts.lostOdd)
	if b := p.seen.announcement(); shared && b.Len() > 0 {
		(&writer{Writer: api.NewWriter(maxSeen), counts: &p.counts}).send(i, b) // Send may still be in the port's
	}
	p.own.Store(i)
	return nil
}

// share puts the shared interface behind the port, if that is possible.
func (p *port) share() {
	if err := p.net.shared.join(p); err != nil { // the network ends
		p.net.log.Warn("a client has no network, trying again", "client", p.name, "error", err)
	}
}

// leave ends what is behind the port. It waits for an interface to stop, so that its identity is free, but not for ever.
func (p *port) leave() {
	switch {
	case p.own.Load() != nil:
		p.net.await(p.own.Swap(nil).stop())
	case p.shared.Load() != nil:
		p.net.shared.leave(p)
	}
}
