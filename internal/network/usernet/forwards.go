// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A Socket is where the host listens for a forwarded port. The network never reads from it: it passes it to each gateway.
type Socket interface {
	syscall.Conn
	io.Closer
}

// forwards are the sockets of all forwarded ports, and why some are not there yet.
type forwards struct {
	all []network.Forward

	mu      sync.Mutex
	sockets []Socket // by the number of the forward; nil: another program has the port
	failing []string
}

// open listens on all ports that are not in inherited. On an error none is left open, unless they may come later.
func (w *forwards) open(o *Options, inherited []Socket) error {
	w.all = o.Forwards
	w.sockets, w.failing = make([]Socket, len(w.all)), make([]string, len(w.all))
	copy(w.sockets, inherited)
	for i := range w.all {
		if w.sockets[i] != nil {
			continue
		}
		err := w.listen(i)
		if err == nil {
			continue
		}
		if !o.LateForwards {
			w.close(len(inherited))
			return err
		}
		w.failing[i] = err.Error()
		o.Log.Warn("a port cannot be forwarded yet; trying again", "error", err)
	}
	return nil
}

// address is where the host listens for forward number i.
func (w *forwards) address(i int) netip.AddrPort {
	return netip.AddrPortFrom(cmp.Or(w.all[i].HostIP, loopback), w.all[i].HostPort)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// listen opens the port of forward number i.
func (w *forwards) listen(i int) error {
	f, at := w.all[i], w.address(i)
	var s Socket
	var err error
	if f.Proto == "tcp" {
		s, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	} else {
		s, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	}
	why := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another program uses that port of this host; end it or forward another port: "
	case errors.Is(err, fs.ErrPermission):
		why = "this user may not use that port of this host; forward one above 1023: "
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this host does not have that address: "
	}
	if err != nil {
		return fmt.Errorf("--vmnet-forward=%s: %s%w", f, why, err)
	}
	w.sockets[i] = s
	return nil
}

// late tries the ports again that another program had, and returns the numbers of those that are there now.
func (w *forwards) late() (came []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.sockets {
		if s == nil && w.listen(i) == nil {
			w.failing[i] = ""
			came = append(came, i)
		}
	}
	return came
}

// socket is that of forward number i, nil if it is not there yet.
func (w *forwards) socket(i int) Socket {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sockets[i]
}

// drop closes the socket of forward number i, which no gateway has.
func (w *forwards) drop(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.sockets[i].Close()
	w.sockets[i] = nil
}

// status describes the forwards, in the order in which they were asked for.
func (w *forwards) status() []status.Forward {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]status.Forward, 0, len(w.all))
	for i, f := range w.all {
		out = append(out, status.Forward{Proto: f.Proto, Host: w.address(i).String(), Guest: f.Guest.String(), Error: w.failing[i]})
	}
	return out
}

// close frees the ports from number from on.
func (w *forwards) close(from int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sockets[min(from, len(w.sockets)):] {
		if s != nil {
			_ = s.Close()
		}
	}
}
