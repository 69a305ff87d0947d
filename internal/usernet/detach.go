// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

// flushTime is how long Detach waits for a gateway to take what waits for it.
const flushTime = 100 * time.Millisecond

// errNoGateway is returned by Detach while there is no gateway that could go on.
var errNoGateway = errors.New("the gateway is being started again")

// Inherited is a gateway that goes on while its daemon becomes another program, with its connections.
type Inherited struct {
	Pair    *net.UnixConn // to it
	Sockets []Socket      // of forwarded ports, by the order in which they were asked for; nil: there is none yet
	State   GatewayState
}

// GatewayState is the rest of an Inherited, as JSON.
type GatewayState struct {
	PID      int            `json:"pid"`
	Hello    gateway.Hello  `json:"hello"`          // with its protocol
	Rest     []byte         `json:"rest,omitempty"` // was read from it, and is not a whole frame yet
	Owed     []byte         `json:"owed,omitempty"` // is to be written before anything else
	Asked    uint64         `json:"asked"`
	Last     gateway.Answer `json:"last"`
	Counters gateway.Answer `json:"counters"`
	Restarts uint64         `json:"restarts"`
	Sessions uint64         `json:"sessions"` // that had no number

	process gateway.Process // where the program is the same
}

// Detach lets go of the gateway and the sockets of forwarded ports, for another network; Close ends the rest. It is called when no
// client is read any more and before their ports are closed: a port that is closed later does not tell the gateway of its end. The
// gateway reads nothing from the host until a network that was started with what Detach returns is told to Resume, and loses nothing.
// After an error Close ends the gateway as well.
func (n *Network) Detach() (*Inherited, error) {
	s := &n.gw
	s.mu.Lock()
	s.leaving = true
	l := s.life
	if s.state != running {
		l = nil
	}
	if l != nil {
		l.leave()
	}
	s.mu.Unlock()
	if l == nil {
		return nil, errNoGateway
	}
	s.goOn()
	<-s.ended
	select {
	case <-l.done: // it ended meanwhile
		return nil, errNoGateway
	default:
	}
	i := &Inherited{Pair: l.conn.UnixConn, Sockets: n.fwd.sockets, State: GatewayState{
		PID: l.proc.PID(), Hello: s.hello, Rest: l.buf[:l.have], Owed: l.left, Asked: s.asked, Last: s.last, Counters: s.counters,
		Restarts: s.restarts, Sessions: n.sessions.last.Load(), process: l.proc,
	}}
	n.detached.Store(true)
	return i, nil
}

// Resume lets an inherited gateway go on: the clients have their ports again, so nothing that comes from it is lost.
func (n *Network) Resume() { n.gw.goOn() }

// leave ends the life but for the gateway: first the writer, when all that waits is written, then the reader. The caller holds
// sup.mu.
func (l *life) leave() {
	l.mu.Lock()
	l.leaving = true
	_ = l.conn.SetWriteDeadline(time.Now().Add(flushTime))
	l.mu.Unlock()
	l.sup.queue.wake()
}

// adopt goes on with a gateway of the network before this one.
func (s *supervisor) adopt(i *Inherited) (*life, error) {
	st := &i.State
	p := st.process
	if p == nil {
		var err error
		if p, err = gateway.Adopt(st.PID); err != nil {
			return nil, err
		}
	}
	l, err := s.newLife(i.Pair, p)
	if err != nil {
		return nil, err
	}
	if v := st.Hello.Protocol; v != gateway.Protocol {
		l.end()
		return nil, errors.Join(fmt.Errorf("it speaks protocol %d, this program %d", v, gateway.Protocol), p.Wait())
	}
	_ = i.Pair.SetDeadline(time.Time{})
	l.inherited, l.ready = true, true
	l.have = copy(l.buf, st.Rest)
	l.left = append(l.left, st.Owed...)
	s.net.sessions.last.Store(st.Sessions)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = running
	s.hello, s.asked, s.last, s.counters, s.restarts = st.Hello, st.Asked, st.Last, st.Counters, st.Restarts
	return l, nil
}
