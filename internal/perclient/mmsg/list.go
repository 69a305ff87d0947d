// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package mmsg

import (
	"sync"

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

func (w list) free() error { return w.Free() }

// freeSenders are those that nobody uses. There are never more of them than there were sends at one time.
var freeSenders struct {
	sync.Mutex
	list []*darwinapi.Sender
}

// takeSender returns nil when the system has no memory.
func takeSender() *darwinapi.Sender {
	freeSenders.Lock()
	defer freeSenders.Unlock()
	n := len(freeSenders.list)
	if n == 0 {
		s, err := darwinapi.NewSender(BatchLen)
		if err != nil {
			return nil
		}
		return s
	}
	s := freeSenders.list[n-1]
	freeSenders.list = freeSenders.list[:n-1]
	return s
}

func giveBackSender(s *darwinapi.Sender) {
	s.Reset()
	freeSenders.Lock()
	freeSenders.list = append(freeSenders.list, s)
	freeSenders.Unlock()
}

// sendList sends by sendmsg_x to what fd is connected to. Where that refuses a list as too long the frames go one by one.
func sendList(fd int, to []byte, b frame.Batch) (sent int, err error) {
	s := takeSender()
	if s == nil {
		return sendPlain(fd, to, b)
	}
	defer giveBackSender(s)
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
				return sendRest(fd, b, sent)
			default:
				return sent, err
			}
		}
	}
	return sent, nil
}

// sendRest sends the frames of b behind the first sent ones, one by one.
func sendRest(fd int, b frame.Batch, sent int) (int, error) {
	it := b.Iter()
	for range sent {
		it.Next()
	}
	rest := b.Bytes()[it.End():]
	n, err := sendPlain(fd, nil, frame.NewBatch(rest, b.Len()-sent))
	return sent + n, err
}
