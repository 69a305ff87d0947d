// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

// flushTime is how long Detach waits for a gateway to take what was begun, and that this daemon goes.
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
	record
	PID  int    `json:"pid"`
	Rest []byte `json:"rest,omitempty"` // was read from it, and is not a whole frame yet
	Owed []byte `json:"owed,omitempty"` // is to be written before anything else
}

// record is what is known of the gateway's lives.
type record struct {
	Hello    gateway.Hello  `json:"hello"`    // of this one, with its protocol
	Asked    uint64         `json:"asked"`    // number of the last question
	Last     gateway.Answer `json:"last"`     // the latest of this one
	Counters gateway.Answer `json:"counters"` // of the lives before this one
	Restarts uint64         `json:"restarts"` // since the network started
}

// Detach lets go of the gateway and the sockets of forwarded ports, for another network; Close ends the rest. It is called when no
// client is read any more and before their ports are closed: a port that is closed later does not tell the gateway of its end. The
// gateway reads nothing from the host until a network that was started with what Detach returns is told to Resume, and loses nothing.
// After an error Close ends the gateway as well.
func (n *Network) Detach() (*Inherited, error) {
	s := &n.gw
	s.stop()
	s.mu.Lock()
	up := s.state == running
	s.mu.Unlock()
	l := s.life.Load()
	if l == nil || !up {
		return nil, errNoGateway
	}
	l.leave()
	_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // nothing more is to come from here
	s.goOn()
	<-s.ended
	if l.dead.Load() { // it ended meanwhile
		return nil, errNoGateway
	}
	for len(l.late) > 0 { // the next network listens again
		n.fwd.drop(<-l.late)
	}
	n.detached.Store(true)
	return &Inherited{Pair: l.conn.UnixConn, Sockets: n.fwd.sockets, State: GatewayState{
		record: s.record, PID: l.proc.Pid, Rest: l.conn.Rest(), Owed: l.left,
	}}, nil
}

// Resume lets an inherited gateway go on: the clients have their ports again, so nothing that comes from it is lost.
func (n *Network) Resume() { n.gw.goOn() }

// adopt goes on with a gateway of the network before this one.
func (s *supervisor) adopt(i *Inherited) (*life, error) {
	st := &i.State
	p, err := os.FindProcess(st.PID) // a child of this process, from before it became this program or from this one
	if err != nil {
		return nil, err
	}
	l, err := s.newLife(i.Pair, p, st.Rest)
	if err != nil {
		return nil, err
	}
	if v := st.Hello.Protocol; v != gateway.Protocol {
		l.end()
		_, err := p.Wait()
		return nil, errors.Join(fmt.Errorf("it speaks protocol %d, this program %d", v, gateway.Protocol), err)
	}
	_ = i.Pair.SetDeadline(time.Time{})
	l.ready, l.left = true, gateway.AppendMessage(st.Owed, gateway.KindBack, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.record = running, st.record
	return l, nil
}
