// SPDX-License-Identifier: Apache-2.0

package dgram

import "time"

// sweepEvery is how often the sockets are looked after that clients may have left.
const sweepEvery = 3 * time.Second

// sweepLoop looks after the sockets until quit is closed. It sleeps as long as there is but one.
func (s *Server) sweepLoop(quit <-chan struct{}) {
	t := time.NewTimer(sweepEvery)
	defer t.Stop()
	t.Stop()
	armed := false
	for {
		select {
		case <-quit:
			return
		case <-s.turns:
			s.turn()
		case <-s.some:
			if !armed {
				t.Reset(sweepEvery)
			}
			armed = true
		case <-t.C:
			if armed = s.sweepOld(); armed {
				t.Reset(sweepEvery)
			}
		}
	}
}

// wakeSweep is called when a client has left a socket.
func (s *Server) wakeSweep() {
	select {
	case s.some <- struct{}{}:
	default:
	}
}
