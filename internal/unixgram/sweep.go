// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
)

// sweepEvery is how often clients are looked after that have perhaps gone: the system does not tell.
const sweepEvery = 3 * time.Second

// sweepLoop looks after the clients and the path until the Server is closed. It sleeps as long as there are none.
func (s *Server) sweepLoop() {
	t := time.NewTimer(sweepEvery)
	defer t.Stop()
	t.Stop()
	armed := false
	for {
		select {
		case <-s.quit:
			return
		case <-s.turns:
			s.turn()
		case <-s.some:
			if !armed {
				t.Reset(sweepEvery)
			}
			armed = true
		case <-t.C:
			if armed = s.sweep(); armed {
				t.Reset(sweepEvery)
			}
		}
	}
}

// wakeSweep is called when there is a client.
func (s *Server) wakeSweep() {
	select {
	case s.some <- struct{}{}:
	default:
	}
}

// sweep ends the clients that have gone and reports whether there is anything left to look after.
func (s *Server) sweep() bool {
	s.mu.Lock()
	all := s.list()
	s.mu.Unlock()
	for _, c := range all {
		if s.stopping.Load() {
			return false
		}
		if s.pause.on.Load() {
			break
		}
		if err := s.check(c); err != nil {
			c.end(err)
		}
	}
	s.pause.gate.RLock()
	defer s.pause.gate.RUnlock()
	return s.sweepOld() || s.Clients() > 0
}

// check is c.pipe.check, of which a panic is an error.
func (s *Server) check(c *client) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked("looking after a client", r)
		}
	}()
	faults.Point("unixgram.sweep")
	return c.pipe.check()
}
