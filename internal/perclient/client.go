// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// Why Serve does not serve a client.
var (
	// ErrFull: there are MaxClients.
	ErrFull = errors.New("there are as many clients as --max-clients allows")
	// ErrStopping: Stop was called.
	ErrStopping = errors.New("the daemon is stopping")
)

// errEnded is the outcome of a first start that never came about.
var errEnded = errors.New("the client has gone")

// A Client is what is known of a client besides its link. The zero Client is one of the stream socket, of whom nothing is.
type Client struct {
	// Name is what it calls itself, for logs and as its identity; empty for none.
	Name string
	// Transport is how it came, status.Stream and so on; empty is that. Path is that of its own socket, if it is answered at one.
	Transport, Path string
	// Log is keys and values that each line in the log about it has.
	Log []any
	// Peer is who is at the other end of its link, or who brought it. Handle asks for it itself.
	Peer peercred.Peer
	// MAC is the address that it says its guest has; nil if it says none.
	MAC net.HardwareAddr
	// InterfaceID is the vmnet interface's identity that it asks for; null for none.
	InterfaceID [16]byte
	// Start starts the port at once, not at the first frame: somebody waits in Ready.
	Start bool
	// Ended is called when the session has ended and Done is closed, if it is not nil. It spares a goroutine that would wait for
	// Done, and must not block.
	Ended func()
}

// A firstStart is the outcome of a session's first attempt to start its port.
type firstStart struct {
	once sync.Once
	done chan struct{}
	info vnet.PortInfo // set before done is closed
	err  error
}

func (f *firstStart) init() { f.done = make(chan struct{}) }

// set tells the outcome; only the first call counts.
func (f *firstStart) set(info vnet.PortInfo, err error) {
	f.once.Do(func() {
		f.info, f.err = info, err
		close(f.done)
	})
}

// Ready waits until the session's port has been started for the first time and describes it. The error is why that failed,
// or ctx's; the session goes on trying unless it is ended.
func (c *Session) Ready(ctx context.Context) (vnet.PortInfo, error) {
	select {
	case <-c.first.done:
		return c.first.info, c.first.err
	case <-ctx.Done():
		return vnet.PortInfo{}, ctx.Err()
	}
}

// MAC is the address of the client's guest: that of its first frame, else the one that it has named, else nil.
func (c *Session) MAC() net.HardwareAddr {
	if m := c.watch.MAC(); m != nil {
		return m
	}
	return c.client.MAC
}
