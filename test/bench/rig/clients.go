// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// A guest is an idle client in this process.
type guest struct {
	net.Conn
	datagrams bool
	to        net.Addr  // nil: the socket is connected
	lifeline  io.Closer // nil: there is none
	path      string    // of its own; empty: none
}

func (g *guest) Write(wire []byte) (int, error) {
	if g.datagrams {
		wire = wire[frame.PrefixLen:]
	}
	if g.to != nil {
		return g.Conn.(*net.UnixConn).WriteTo(wire, g.to)
	}
	return g.Conn.Write(wire)
}

func (g *guest) Close() error {
	err := g.Conn.Close()
	if g.lifeline != nil {
		err = errors.Join(err, g.lifeline.Close())
	}
	if g.path != "" {
		err = errors.Join(err, os.Remove(g.path))
	}
	return err
}

// Join connects a client of each of these kinds. They each send one frame and read whatever comes, until leave is called.
func (r *Relay) Join(ctx context.Context, kinds string) (leave func(), err error) {
	var readers sync.WaitGroup
	var guests []*guest
	leave = func() {
		for _, g := range guests {
			_ = g.Close()
		}
		readers.Wait()
	}
	for i, kind := range kinds {
		g, err := r.connect(ctx, string(kind), i)
		if err != nil {
			leave()
			return nil, fmt.Errorf("connect an idle client: %w", err)
		}
		guests = append(guests, g)
		readers.Go(func() { _, _ = io.Copy(io.Discard, g.Conn) })
		if _, err := g.Write(hello(i)); err != nil {
			leave()
			return nil, fmt.Errorf("write as an idle client: %w", err)
		}
	}
	return leave, nil
}

// connect connects client i, and retries while the relay is starting.
func (r *Relay) connect(ctx context.Context, kind string, i int) (g *guest, err error) {
	switch kind {
	case Stream:
		err = r.await(ctx, func() error {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
			g = &guest{Conn: c}
			return err
		})
	case Passed:
		err = r.await(ctx, func() error {
			g, err = r.attach(ctx)
			return err
		})
	case Connected, Unconnected:
		g, err = r.bind(ctx, kind, i)
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	return g, err
}

// attach is a client with a datagram socket from SOCKET.d/attach.
func (r *Relay) attach(ctx context.Context) (*guest, error) {
	a, err := client.Attach(ctx, r.Socket, proto.Request{Transport: proto.Datagram})
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.File.Close() }() // there is a copy
	c, err := net.FileConn(a.File)
	return &guest{Conn: c, datagrams: true, lifeline: a.Lifeline}, err
}

// bind is client i with a path of its own.
func (r *Relay) bind(ctx context.Context, kind string, i int) (*guest, error) {
	shared := &net.UnixAddr{Name: r.Socket + ".d/dgram/sock", Net: "unixgram"}
	own := &net.UnixAddr{Name: fmt.Sprintf("%s.idle%d", r.Socket, i), Net: "unixgram"}
	err := r.await(ctx, func() error {
		_, err := os.Stat(shared.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if kind == Unconnected {
		c, err := net.ListenUnixgram("unixgram", own)
		return &guest{Conn: c, datagrams: true, to: shared, path: own.Name}, err
	}
	c, err := net.DialUnix("unixgram", own, shared)
	return &guest{Conn: c, datagrams: true, path: own.Name}, err
}

// hello is a frame of 64 bytes from client i to client 0, in wire form.
func hello(i int) []byte {
	const frameLen = 64
	b := binary.BigEndian.AppendUint32(nil, frameLen)
	b = append(b, 0x02, 0x62, 0x65, 0x6e, 0, 0)
	b = append(b, 0x02, 0x62, 0x65, 0x6e, 0, byte(i))
	b = append(b, 0x88, 0xb5) // IEEE 802 local experimental
	return append(b, make([]byte, frame.PrefixLen+frameLen-len(b))...)
}
