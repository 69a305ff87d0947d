// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// plainLen is the size of a slot where a message that is too long is told by its length, in bytes.
const plainLen = MaxLen + 1

// A plain receives by one call per datagram, which every system has. Names cost it some garbage per datagram.
type plain struct {
	mem   []byte
	names bool
	from  [BatchLen][]byte
}

// newPlain makes a Receiver that does without calls for many datagrams.
func newPlain(names bool) (*Receiver, error) {
	mem, err := MapMemory(BatchLen * (frame.PrefixLen + plainLen))
	if err != nil {
		return nil, err
	}
	return &Receiver{way: &plain{mem: mem, names: names}, names: names, slots: slots{near: mem, nearLen: plainLen}}, nil
}

func (w *plain) receive(fd int, s *slots) (n int, err error) {
	bufs := make([][]byte, 1)
	for n < BatchLen {
		bufs[0] = s.near[n*s.stride()+frame.PrefixLen:][:plainLen]
		size, _, flags, from, err := unix.RecvmsgBuffers(fd, bufs, nil, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil && n > 0: // it comes again, or did not matter
			return n, nil
		case err != nil:
			return 0, err
		}
		s.size[n] = uint32(size)
		if flags&unix.MSG_TRUNC != 0 {
			s.size[n] = plainLen
		}
		w.from[n] = nil
		if w.names {
			w.from[n] = nameOf(from)
		}
		n++
	}
	return n, nil
}

// nameOf is the path in a sender's address. Package unix writes @ for the zero of an abstract name.
func nameOf(from unix.Sockaddr) []byte {
	a, ok := from.(*unix.SockaddrUnix)
	if !ok || a.Name == "" {
		return nil
	}
	name := []byte(a.Name)
	if runtime.GOOS == "linux" && name[0] == '@' {
		name[0] = 0
	}
	return name
}

func (w *plain) name(i int) []byte { return w.from[i] }

func (w *plain) sender(int) (int, uint32, bool) { return 0, 0, false }

func (w *plain) free() error { return unix.Munmap(w.mem) }

// sendPlain sends with one call per datagram.
func sendPlain(fd int, to []byte, b frame.Batch, _ []byte) (sent int, err error) {
	var addr unix.Sockaddr
	if to != nil {
		addr = &unix.SockaddrUnix{Name: string(to)}
	}
	it := b.Iter()
	for it.Next() {
		if err := sendFrame(fd, addr, it.Frame()); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// sendFrame sends one datagram. Go ignores SIGPIPE of sockets.
func sendFrame(fd int, to unix.Sockaddr, f []byte) error {
	for {
		var err error
		if to == nil {
			err = unix.Send(fd, f, unix.MSG_DONTWAIT)
		} else {
			err = unix.Sendto(fd, f, unix.MSG_DONTWAIT, to)
		}
		if err != unix.EINTR {
			return err
		}
	}
}
