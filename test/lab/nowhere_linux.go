// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A Nowhere is a TCP port of the host that neither takes nor refuses connections: whoever connects waits.
type Nowhere struct {
	fd, port int
	filler   []int
}

// ListenNowhere opens one on a loopback port. Linux drops the first packet of a connection while a listener's queue of
// finished ones is full, and this queue holds one.
func ListenNowhere() (*Nowhere, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listen nowhere: %w", err)
	}
	n := &Nowhere{fd: fd}
	if err := n.fill(); err != nil {
		n.Close()
		return nil, fmt.Errorf("listen nowhere: %w", err)
	}
	return n, nil
}

func (n *Nowhere) fill() error {
	if err := unix.Bind(n.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(n.fd, 0); err != nil {
		return err
	}
	addr, err := unix.Getsockname(n.fd)
	if err != nil {
		return err
	}
	to := addr.(*unix.SockaddrInet4) // it was bound to one
	n.port = to.Port
	for range 4 {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		n.filler = append(n.filler, c)
		_ = unix.Connect(c, to) // in progress, for ever once the queue is full
	}
	return nil
}

// Port is the port on 127.0.0.1.
func (n *Nowhere) Port() int { return n.port }

// Addr is the address with the port.
func (n *Nowhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port} }

// Close refuses everybody who waits.
func (n *Nowhere) Close() {
	for _, fd := range append(n.filler, n.fd) {
		_ = unix.Close(fd)
	}
}
