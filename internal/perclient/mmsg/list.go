// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package mmsg

import (
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// maxListLen bounds the bytes of one call: macOS may refuse more than the socket's send buffer holds.
const maxListLen = 64 << 10

// A list receives by recvmsg_x.
type list struct{ *darwinapi.Receiver }

// newList makes a Receiver that uses recvmsg_x, without names.
func newList() (*Receiver, error) {
	r, err := darwinapi.NewReceiver(BatchLen, frame.PrefixLen, plainLen)
	if err != nil {
		return nil, err
	}
	return &Receiver{way: list{r}, slots: slots{near: r.Slots(), nearLen: plainLen}}, nil
}

func (w list) receive(fd int, s *slots) (int, error) {
	for {
		n, err := w.Receive(fd)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		for i := range n {
			s.size[i] = uint32(len(w.Message(i)) - frame.PrefixLen)
		}
		return n, nil
	}
}

func (w list) name(int) []byte { return nil }

func (w list) sender(int) (int, uint32, bool) { return 0, 0, false }

func (w list) free() error { return w.Free() }

// freeSenders are those that no send uses.
var freeSenders = Pool[*darwinapi.Sender]{Drop: func(s *darwinapi.Sender) { _ = s.Free() }}

// sendList sends by sendmsg_x to what fd is connected to. Where that refuses a list as too long the frames go one by one.
func sendList(fd int, to []byte, b frame.Batch, _ []byte) (sent int, err error) {
	s, ok := freeSenders.Get()
	if !ok {
		if s, err = darwinapi.NewSender(BatchLen); err != nil {
			return sendPlain(fd, to, b, nil)
		}
	}
	defer func() {
		s.Reset()
		freeSenders.Put(s)
	}()
	it := b.Iter()
	more := it.Next()
	for more {
		s.Reset()
		for size := 0; more && (size == 0 || size+len(it.Frame()) <= maxListLen) && s.Add(it.Frame()); more = it.Next() {
			size += len(it.Frame())
		}
		for s.Len() > 0 {
			n, err := s.Send(fd)
			sent += max(n, 0)
			switch {
			case err == nil && n <= 0: // it says nothing; asking again at once could go on for ever
				return sent, unix.EAGAIN
			case err == nil, err == unix.EINTR:
			case err == unix.EMSGSIZE && s.Len() > 1:
				n, err := sendPlain(fd, nil, b.After(sent), nil)
				return sent + n, err
			default:
				return sent, err
			}
		}
	}
	return sent, nil
}
