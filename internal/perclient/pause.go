// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// flushPoll is how often Flush looks.
const flushPoll = time.Millisecond

// A pauser has a session's two goroutines stand still, for the time of an upgrade: first the reader, between two frames, then
// the keeper, with the port closed.
//
//	running --pauseReader--> reader stands --pauseKeeper--> both stand --resume--> running
type pauser struct {
	mu     sync.Mutex
	ctx    context.Context    // of what the keeper does; ends at a pause and with the session
	cancel context.CancelFunc // of ctx
	open   chan struct{}      // closed by resume; nil while nothing is paused
	reader chan struct{}      // closed when the reader stands
	keeper chan struct{}      // closed when the keeper stands, or has ended
	ended  bool               // the keeper has; the session may go on without one
}

func (p *pauser) init(ctx context.Context) { p.ctx, p.cancel = context.WithCancel(ctx) }

// begin notes that a pause is wanted.
func (p *pauser) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
	p.reader, p.keeper = make(chan struct{}), make(chan struct{})
	if p.ended {
		close(p.keeper)
	}
}

// end notes that the keeper has ended. It calls it itself.
func (p *pauser) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.open == nil {
		return
	}
	select {
	case <-p.keeper: // it has stood already
	default:
		close(p.keeper)
	}
}

// stop ends what the keeper does.
func (p *pauser) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel()
}

// resume lets both go on. ctx is the session's. before is called if the keeper stands, which it does until resume returns.
func (p *pauser) resume(ctx context.Context, before func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return
	}
	select {
	case <-p.keeper:
		if !p.ended {
			before()
		}
	default:
	}
	p.init(ctx)
	close(p.open)
	p.open = nil
}

// work is the context of what the keeper does next.
func (p *pauser) work() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx
}

// stand waits for resume, or for ctx, the session's, to end. at tells which of the two goroutines stands.
func (p *pauser) stand(ctx context.Context, at func(*pauser) chan struct{}) {
	p.mu.Lock()
	open, standing := p.open, at(p)
	p.mu.Unlock()
	if open == nil {
		return
	}
	close(standing)
	select {
	case <-open:
	case <-ctx.Done():
	}
}

func atReader(p *pauser) chan struct{} { return p.reader }
func atKeeper(p *pauser) chan struct{} { return p.keeper }

// Pause makes every session stand still and closes its port; the clients stay connected and notice nothing. Nobody is served
// any more until Resume. An error says that not all stood still before ctx was done; Resume has to be called then as well.
func (s *Server) Pause(ctx context.Context) error {
	s.mu.Lock()
	s.paused = true
	sessions := make([]*Session, 0, len(s.sessions))
	for c := range s.sessions {
		if l, ok := c.link.(link.Pausable); ok {
			sessions = append(sessions, c)
			c.pause.begin()
			l.Pause()
		}
	}
	s.mu.Unlock()
	// All readers first: a frame that one is handing on may be for the port of another.
	for _, c := range sessions {
		if err := c.standing(ctx, c.pause.reader); err != nil {
			return err
		}
	}
	for _, c := range sessions {
		c.pause.stop()
	}
	for _, c := range sessions {
		if err := c.standing(ctx, c.pause.keeper); err != nil {
			return err
		}
	}
	return nil
}

// standing waits for one of the session's goroutines to stand, or to have ended.
func (c *Session) standing(ctx context.Context, at chan struct{}) error {
	select {
	case <-at:
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("%s does not stand still: %w", c.name, context.Cause(ctx))
	}
	return nil
}

// Flush waits until nothing is queued for any client, for d at most: what is queued when a session is saved is lost. It is
// called between Pause and Save.
func (s *Server) Flush(d time.Duration) {
	sessions := s.Sessions()
	for end := time.Now().Add(d); ; time.Sleep(flushPoll) {
		sessions = slices.DeleteFunc(sessions, func(c *Session) bool { return c.link.Stats().Queued == 0 })
		if len(sessions) == 0 || !time.Now().Before(end) {
			return
		}
	}
}

// Resume undoes Pause: ports are started again at once.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
	g := newGathering(1)
	for c := range s.sessions {
		if l, ok := c.link.(link.Pausable); ok {
			l.Resume()
			c.pause.resume(c.ctx, func() {
				g.join()
				c.rejoin = g
			})
		}
	}
	g.arrived()
}

// Use has ports that start from now on be of n. It is called between Pause and Resume, when the network has been closed.
func (s *Server) Use(n vnet.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.network = n
}

// now is the network that a port is to be of.
func (s *Server) now() vnet.Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network
}

// Sessions are those of the clients that are served now.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessionsLocked()
}

func (s *Server) sessionsLocked() []*Session {
	sessions := make([]*Session, 0, len(s.sessions))
	for c := range s.sessions {
		sessions = append(sessions, c)
	}
	return sessions
}

// stood reports whether err, with which the link's Run ended, is a pause. It returns when Run is to be called again.
func (c *Session) stood(err error) bool {
	if !errors.Is(err, link.ErrPaused) {
		return false
	}
	c.pause.stand(c.ctx, atReader)
	return true
}
