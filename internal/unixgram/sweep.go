// SPDX-License-Identifier: Apache-2.0

package unixgram

import "time"

// sweepEvery is how often clients are looked after that have perhaps gone: the system does not tell.
const sweepEvery = 3 * time.Second

// sweepLoop looks after the clients until the Server is closed.
func (s *Server) sweepLoop() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
			s.sweep()
		}
	}
}

// sweep ends the clients that have gone.
func (s *Server) sweep() {
	s.mu.Lock()
	all := s.list()
	s.mu.Unlock()
	for _, c := range all {
		if s.stopping.Load() {
			return
		}
		if err := c.pipe.check(); err != nil {
			c.end(err)
		}
	}
	s.shared.sweep()
}
