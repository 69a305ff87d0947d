// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
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

// Ways are all the ways in to a daemon on socket, whose adopted sockets are bound in dir.
func Ways(socket, dir string) []Transport {
	return []Transport{
		StreamSocket(socket), PathSocket(socket, "", true), PathSocket(socket, "", false), AttachSocket(socket, proto.Datagram),
		AttachSocket(socket, proto.Stream), AdoptSocket(socket, proto.Datagram, false), AdoptSocket(socket, proto.Datagram, true),
		AdoptSocket(socket, proto.Stream, true), adoptBound(socket, dir),
	}
}

// AttachSocket is the attach socket of a daemon on socket, which gives a descriptor to its clients.
func AttachSocket(socket string, t proto.Transport) Transport {
	return Transport{Name: "attach " + string(t), MaxFrame: maxFrame(t), Dial: func(ctx context.Context) (fakeguest.Link, error) {
		a, err := proto.Attach(ctx, socket, proto.Request{Transport: t})
		if err != nil {
			return nil, err
		}
		l, err := fileLink(a.File, t)
		if err != nil {
			_ = a.Lifeline.Close()
			return nil, err
		}
		return &lifelineLink{l, a.Lifeline}, nil
	}}
}

// AdoptSocket is the adopt socket of a daemon on socket, to which clients hand one end of a pair of sockets. With ask they say
// what it is and wait for the answer, else they do what Lima does.
func AdoptSocket(socket string, t proto.Transport, ask bool) Transport {
	name := "adopt " + string(t)
	if ask {
		name += " with a request"
	}
	return Transport{Name: name, MaxFrame: maxFrame(t), Dial: func(ctx context.Context) (fakeguest.Link, error) {
		fd, other, err := proto.Pair(t)
		if err != nil {
			return nil, err
		}
		own, theirs := os.NewFile(uintptr(fd), "client's end"), os.NewFile(uintptr(other), "daemon's end")
		var r *proto.Request
		if ask {
			r = &proto.Request{Transport: t}
		}
		_, err = proto.Adopt(ctx, socket, theirs, r)
		if err := errors.Join(err, theirs.Close()); err != nil {
			_ = own.Close()
			return nil, err
		}
		return fileLink(own, t)
	}}
}

// adoptBound is the adopt socket of a daemon on socket, to which a helper passes a socket bound in dir for a client that cannot
// take a descriptor, but knows the path to connect to: vfkit or libkrun behind vmnet-helper.
func adoptBound(socket, dir string) Transport {
	return Transport{Name: "adopt bound", MaxFrame: fakeguest.MaxDatagramLen, Dial: func(ctx context.Context) (fakeguest.Link, error) {
		server := filepath.Join(dir, fmt.Sprintf("b%d-%d", os.Getpid(), paths.Add(1)))
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: server, Net: "unixgram"})
		if err != nil {
			return nil, err
		}
		f, err := conn.File()
		if err == nil {
			_, err = proto.Adopt(ctx, socket, f, &proto.Request{Transport: proto.Datagram})
			err = errors.Join(err, f.Close())
		}
		if err := errors.Join(err, conn.Close()); err != nil {
			return nil, errors.Join(err, os.Remove(server))
		}
		return fakeguest.PathLink(ctx, fakeguest.PathOptions{Server: server, Local: server + "c", Connected: true, Hello: true})
	}}
}

// maxFrame is the longest frame for clients by t, in bytes.
func maxFrame(t proto.Transport) int {
	if t == proto.Datagram {
		return fakeguest.MaxDatagramLen
	}
	return frame.MaxStreamLen
}

// lifelineLink is a link that ends with its lifeline.
type lifelineLink struct {
	fakeguest.Link
	lifeline *os.File
}

func (l *lifelineLink) Close() error { return errors.Join(l.Link.Close(), l.lifeline.Close()) }

// fileLink makes a link of a connected socket, which it takes over.
func fileLink(f *os.File, t proto.Transport) (fakeguest.Link, error) {
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if t == proto.Stream {
		return fakeguest.StreamLink(conn), nil
	}
	return fakeguest.DatagramLink(conn.(*net.UnixConn))
}
