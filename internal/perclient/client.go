// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Why Serve does not serve a client.
var (
	// ErrFull: there are MaxClients.
	ErrFull = errors.New("there are as many clients as --max-clients allows")
	// ErrStopping: the daemon stops, or is about to become another program.
	ErrStopping = errors.New("the daemon is stopping")
)

// ErrGone is the outcome of a first start that never came about.
var ErrGone = errors.New("the client has gone")

// A Client is what is known of a client besides its link. The zero Client is one of the stream socket of which nothing is known.
type Client struct {
	// Name is what it calls itself, for logs and as its identity; empty for none.
	Name string `json:"name,omitempty"`
	// Transport is how it came, status.Stream and so on; empty is that. Via is the socket that it was passed by, "attach" or
	// "adopt". Path is that of its own socket, if it is answered at one.
	Transport string `json:"transport,omitempty"`
	Via       string `json:"via,omitempty"`
	Path      string `json:"path,omitempty"`
	// Peer is the process at the other end of its link, or that brought it. Handle asks for it itself.
	Peer hostfs.Peer `json:"peer"`
	// MAC is the address that it says its guest has; nil if it says none.
	MAC net.HardwareAddr `json:"mac,omitempty"`
	// InterfaceID is the vmnet interface's identity that it asks for; null for none.
	InterfaceID [16]byte `json:"interface_id,omitzero"`
	// Identity is by what its port is started, if that is known already: see network.PortOptions.
	Identity string `json:"identity,omitempty"`
	// Start starts the port at once, not at the first frame: a caller waits in Ready.
	Start bool `json:"-"`

	// Lifeline is a connection whose end ends the session, none if it is not set. The session reads from it and closes it.
	Lifeline link.Descriptor `json:"lifeline,omitzero"`
	// Theirs is the client's end of the pair that its link is on, none if it is not set. The session keeps it open until the
	// client is known to have it, and closes it.
	Theirs link.Descriptor `json:"theirs,omitzero"`
}

// args are keys and values that each line in the log about the client has.
func (c *Client) args() (args []any) {
	switch c.Transport {
	case status.Stream:
	case status.Unixgram:
		args = []any{"transport", "dgram", "path", c.Path, "uid", c.Peer.UID}
		if c.Peer.Unverified {
			args = append(args, "unverified", true)
		}
	default:
		transport := "dgram"
		if c.Transport == status.PassedStream {
			transport = "stream"
		}
		args = append([]any{"via", c.Via, "transport", transport}, c.Peer.Args()...)
	}
	if c.Name != "" {
		args = append(args, "name", c.Name)
	}
	return args
}

// A firstStart is the outcome of a session's first attempt to start its port.
type firstStart struct {
	once sync.Once
	done chan struct{}
	info network.PortInfo // set before done is closed
	err  error
}

// tried tells the outcome of an attempt to start the port; only the first call counts.
func (c *Session) tried(info network.PortInfo, err error) {
	c.first.once.Do(func() {
		c.first.info, c.first.err = info, err
		close(c.first.done)
		select {
		case c.come <- struct{}{}:
		default: // none waits for it
		}
	})
}

// Ready waits until the session's port has been started for the first time and describes it. The error is why that failed,
// or ctx's; the session goes on trying unless it is ended.
func (c *Session) Ready(ctx context.Context) (network.PortInfo, error) {
	select {
	case <-c.first.done:
		return c.first.info, c.first.err
	case <-ctx.Done():
		return network.PortInfo{}, ctx.Err()
	}
}
