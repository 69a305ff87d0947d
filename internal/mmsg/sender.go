// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A Sender sends batches of frames, one datagram each. It holds no memory between calls. Several goroutines may use one.
type Sender struct {
	sendAll func(fd int, to []byte, b frame.Batch) (int, error) // nil: the system's best way
	as      *credential                                         // nil: as ourselves
}

// NewSender makes a Sender.
func NewSender() *Sender { return new(Sender) }

// Send sends the frames of b in order from fd, without waiting whatever fd's flags say where the system allows that (macOS
// does not), and returns how many went. to is the path of the socket that gets them, one beginning with 0 an abstract name;
// nil if fd is connected. Fewer than all come with the error for the first one that did not go, a bare number of the
// system: EAGAIN or ENOBUFS when there is no room now, EMSGSIZE when that frame is too long for the socket.
func (s *Sender) Send(fd int, to []byte, b frame.Batch) (sent int, err error) {
	if b.Len() == 0 {
		return 0, nil
	}
	if to != nil && len(to) == 0 {
		return 0, unix.EINVAL
	}
	if s.sendAll != nil {
		return s.sendAll(fd, to, b)
	}
	if s.as != nil {
		return sendAs(fd, to, b, s.as)
	}
	return send(fd, to, b)
}
