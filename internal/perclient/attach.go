// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

const (
	// maxHeldSaved is how much of a client's input that waits for its port is kept at Detach, in bytes of wire form. More waits
	// only while a port fails to start.
	maxHeldSaved = 16 << 10

	// flushTime is how long clients that are behind have at Detach to take what is queued for them, and flushPoll how often that
	// is looked at.
	flushTime = 20 * time.Millisecond
	flushPoll = time.Millisecond

	// holdTime is how long attached clients are not read at most while no port of the others starts: thousands take longer in all.
	holdTime = 500 * time.Millisecond
)

// A Detached is a session without goroutines: what it takes to attach its client again, in this process or in its next image.
type Detached struct {
	ID       uint64            `json:"id"`
	Client   Client            `json:"client"`
	Began    time.Time         `json:"began"`
	Link     link.State        `json:"link"`
	Watch    watch.Snapshot    `json:"watch"`
	Held     []byte            `json:"held,omitempty"` // frames in wire form that wait for the port
	DropHeld uint64            `json:"drop_held,omitempty"`
	Ports    network.PortStats `json:"ports"`
	MACs     []network.MAC     `json:"macs,omitempty"` // behind its port
	// LetGo is how long Client.Theirs is still kept at most.
	LetGo time.Duration `json:"let_go,omitempty"`
	Guard []byte        `json:"guard,omitempty"` // what its guard has saved

	guard Guard // in the process that it was detached in
}

// Descriptors are those that the client has.
func (v *Detached) Descriptors() []link.Descriptor {
	d := []link.Descriptor{v.Link.Socket, v.Client.Lifeline, v.Client.Theirs}
	if v.Link.At != nil {
		d = append(d, v.Link.At.Pin)
	}
	return slices.DeleteFunc(d, link.Descriptor.IsNone)
}

// close gives the client up without a word: it is for one that is not attached again.
func (v *Detached) close() {
	for _, d := range v.Descriptors() {
		d.Close()
	}
	if v.guard != nil {
		v.guard.Close()
	}
}

// Detach ends every session without its client noticing, and serves no client until Attach. It is one barrier: all readers end first,
// since a frame that one is handing on may be for the port of another; sessions that end at this moment have drained their clients
// then; standing is called while the ports are there still; the ports are closed, then, by closeNetwork, the network; clients have
// flushTime to take what is queued for them.
//
// An error says that not all sessions have come to rest before ctx was done. The others are returned all the same, and the network is
// not closed; the late ones are given to late one by one as they come to rest, from goroutines of their own.
func (s *Server) Detach(ctx context.Context, standing, closeNetwork func(), late func(Detached)) (list []Detached, err error) {
	s.mu.Lock()
	s.detaching = true
	s.open()
	for c := range s.sessions {
		c.link.Interrupt()
	}
	s.mu.Unlock()
	sessions := s.Sessions()
	rest, slow := comeToRest(ctx, sessions, func(c *Session) <-chan struct{} { return c.still })
	if len(slow) == 0 {
		standing()
	}
	for _, c := range rest {
		c.cancel()
	}
	closing := ctx
	if len(slow) > 0 { // ctx is done; the others need time to close their ports all the same
		var cancel context.CancelFunc
		closing, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), holdTime, context.Cause(ctx))
		defer cancel()
	}
	rest, slower := comeToRest(closing, rest, func(c *Session) <-chan struct{} { return c.done })
	if slow = append(slow, slower...); len(slow) == 0 {
		closeNetwork()
	} else {
		err = fmt.Errorf("%s and %d other clients do not come to rest: %w", slow[0].name, len(slow)-1, context.Cause(ctx))
	}
	flush(rest)
	for _, c := range rest {
		if v, ok := c.take(); ok {
			list = append(list, v)
		}
	}
	for _, c := range slow {
		s.running.Go(func() {
			select {
			case <-c.still:
			case <-c.done:
				return // it has ended
			}
			c.cancel()
			<-c.done
			if v, ok := c.take(); ok {
				late(v)
			}
		})
	}
	return list, err
}

// comeToRest waits for a channel of each session, or for its end, and tells which of them neither came to before ctx was done.
func comeToRest(ctx context.Context, sessions []*Session, of func(*Session) <-chan struct{}) (rest, late []*Session) {
	for _, c := range sessions {
		select {
		case <-of(c):
		case <-c.done:
		case <-ctx.Done():
			select {
			case <-of(c):
			case <-c.done:
			default:
				late = append(late, c)
				continue
			}
		}
		rest = append(rest, c)
	}
	return rest, late
}

// flush waits until nothing is queued for any client, for flushTime at most.
func flush(sessions []*Session) {
	for end := time.Now().Add(flushTime); ; time.Sleep(flushPoll) {
		sessions = slices.DeleteFunc(slices.Clone(sessions), func(c *Session) bool { return c.link.Stats().Queued == 0 })
		if len(sessions) == 0 || !time.Now().Before(end) {
			return
		}
	}
}

// GiveUp has the next Detach let go of the client, whose socket another session shall serve.
func (c *Session) GiveUp() { c.givenUp.Store(true) }

// take makes a value of the session, of which nothing runs any more. It is not ok if its client has gone: then it has ended.
func (c *Session) take() (v Detached, ok bool) {
	select {
	case <-c.still:
	default:
		return v, false
	}
	if c.link.Gone() {
		c.end(io.EOF)
		return v, false
	}
	c.srv.mu.Lock()
	delete(c.srv.sessions, c)
	c.srv.mu.Unlock()
	if c.givenUp.Load() {
		defer func() { v.close() }()
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.gone = true
	v = Detached{
		ID: c.id, Client: c.client, Began: c.began, Watch: c.watch.Snapshot(), Link: c.link.Detach(), DropHeld: c.dropHeld.Load(),
		Ports: c.ports, MACs: c.learned, guard: c.guard,
	}
	v.Client.Identity = c.identity()
	if c.guard != nil {
		v.Guard = c.guard.Save()
	}
	if !c.letGo.IsZero() {
		v.LetGo = max(time.Until(c.letGo), time.Nanosecond)
	}
	kept := frame.NewBatch(c.held, c.heldN).Within(maxHeldSaved)
	v.Held = kept.Bytes()
	v.DropHeld += uint64(c.heldN - kept.Len())
	return v, !c.givenUp.Load()
}

// Network has ports that start from now on be of n. It is called between Detach and Attach.
func (s *Server) Network(n network.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.network = n
}

// Attach serves the clients of list, whose links linkOf makes, and new ones. No client of list is read before the ports of all have
// been started, or none of them for holdTime: a frame would be lost that is for one of those that are not there yet. It returns which of
// list could not be attached, with why; they are closed.
func (s *Server) Attach(list []Detached, linkOf func(*Detached) (link.Link, error)) (lost map[uint64]error) {
	hold, open := context.WithCancel(context.Background())
	come := make(chan struct{}, len(list))
	lost = map[uint64]error{}
	sessions := make([]*Session, 0, len(list))
	for i := range list {
		c, err := s.attach(&list[i], linkOf)
		if err != nil {
			lost[list[i].ID] = err
			continue
		}
		c.others, c.come = hold.Done(), come
		sessions = append(sessions, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detaching = false
	s.hold, s.open = hold.Done(), open
	if s.stopping {
		open()
	}
	go release(hold, open, len(sessions), come)
	for _, c := range sessions {
		s.begin(c)
	}
	return lost
}

// Held is closed when the clients that were attached last are read.
func (s *Server) Held() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold
}

// attach makes a session of v that does not run yet.
func (s *Server) attach(v *Detached, linkOf func(*Detached) (link.Link, error)) (*Session, error) {
	held, err := frames(v.Held)
	if err != nil {
		v.close()
		return nil, err
	}
	l, err := linkOf(v)
	if err != nil {
		v.Link = link.State{} // it is linkOf's
		v.close()
		return nil, err
	}
	v.Client.Start = true
	c := newSession(s, v.ID, l, v.Client, v.guard, v.Guard)
	c.attached = true
	c.began, c.learned, c.ports = v.Began, v.MACs, v.Ports
	c.watch.Restore(v.Watch)
	c.seen = v.Watch.MAC != nil
	c.stored.Store(c.toStore)
	c.held, c.heldN = v.Held, held
	c.dropHeld.Store(v.DropHeld)
	if v.LetGo > 0 {
		c.letGo = time.Now().Add(min(v.LetGo, keepTime))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID = max(s.lastID, v.ID)
	return c, nil
}

// frames is how many whole frames b holds. Anything else in it is an error.
func frames(b []byte) (n int, err error) {
	for rest := b; len(rest) > 0; {
		batch, used, runts, err := frame.Scan(rest)
		if err != nil || used == 0 || runts > 0 || len(rest) > maxHeld {
			return 0, fmt.Errorf("attach a client: %d held bytes are not whole frames", len(b))
		}
		n += batch.Len()
		rest = rest[used:]
	}
	return n, nil
}

// release opens the hold once n have told by come that their ports have been tried, or none of them for holdTime, or ctx has ended.
func release(ctx context.Context, open func(), n int, come <-chan struct{}) {
	defer open()
	for range n {
		select {
		case <-come:
		case <-time.After(holdTime):
			return
		case <-ctx.Done():
			return
		}
	}
}
