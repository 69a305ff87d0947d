// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// A Transport is a way by which clients get to a daemon.
type Transport struct {
	Name     string
	MaxFrame int // the longest frame that the daemon sends to such clients, in bytes
	// Dial makes a client that has sent nothing yet.
	Dial func(ctx context.Context) (fakeguest.Link, error)
}

// StreamSocket is the stream socket at path.
func StreamSocket(path string) Transport {
	return Transport{Name: "stream", MaxFrame: frame.MaxStreamLen, Dial: func(ctx context.Context) (fakeguest.Link, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return fakeguest.StreamLink(conn), nil
	}}
}

// DatagramPath is the datagram socket of a daemon on socket.
func DatagramPath(socket string) string { return filepath.Join(socket+".d", "dgram", "sock") }

// paths numbers the clients' sockets.
var paths atomic.Uint32

// PathSocket is the datagram socket of a daemon on socket. Clients bind in dir; "" is beside the daemon's socket, as vfkit
// does it. They are connected, and say hello, or not, as PathOptions describes it.
func PathSocket(socket, dir string, connected bool) Transport {
	server, name := DatagramPath(socket), "path unconnected"
	if dir == "" {
		dir = filepath.Dir(server)
	}
	if connected {
		name = "path connected"
	}
	return Transport{Name: name, MaxFrame: fakeguest.MaxDatagramLen, Dial: func(ctx context.Context) (fakeguest.Link, error) {
		return fakeguest.PathLink(ctx, fakeguest.PathOptions{
			Server:    server,
			Local:     filepath.Join(dir, fmt.Sprintf("g%d-%d", os.Getpid(), paths.Add(1))),
			Connected: connected,
			Hello:     connected,
		})
	}}
}
