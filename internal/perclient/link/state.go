// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A State is a detached link: what it takes to make another one for the same client, in this process or in its next image.
type State struct {
	Socket Descriptor `json:"socket,omitzero"` // of the client, or that it is sent to by
	In     []byte     `json:"in,omitempty"`    // stream: the begin of a frame, in wire form, that has not fully arrived
	Out    []byte     `json:"out,omitempty"`   // stream: the rest of a frame that was cut while it was written
	Stats  Stats      `json:"stats"`

	Waits bool  `json:"waits,omitempty"` // Socket is bound, and its first sender is not known yet
	At    *File `json:"at,omitempty"`    // the socket that the client has bound
}

// A File is a socket in the file system.
type File struct {
	UID uint32     `json:"uid"` // of its owner
	Dev uint64     `json:"dev"`
	Ino uint64     `json:"ino"`
	Pin Descriptor `json:"pin,omitzero"` // that holds the inode, where the system has such
	Via int        `json:"via,omitempty"`
}

// A Descriptor is one that waits for its next owner, which is in this process or, by the number, in its next image. The zero
// Descriptor is none.
type Descriptor struct {
	FD   int           `json:"fd"`
	conn *net.UnixConn // that has FD, in the process that let go of it; nil: FD is a number and nothing else
}

// Holding is the descriptor of conn, which is not used any more.
func Holding(conn *net.UnixConn) Descriptor {
	_, fd, _ := Raw(conn)
	return Descriptor{FD: fd, conn: conn}
}

// IsNone reports whether there is no descriptor.
func (d Descriptor) IsNone() bool { return d.FD <= 0 }

// Conn is the connection that has the descriptor. It takes it over.
func (d Descriptor) Conn() (*net.UnixConn, error) {
	if d.conn != nil {
		return d.conn, nil
	}
	if d.IsNone() {
		return nil, errors.New("use a client's socket: there is none")
	}
	f := os.NewFile(uintptr(d.FD), "client")
	defer func() { _ = f.Close() }() // the connection has a duplicate
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use a client's socket: %w", err)
	}
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("use a client's socket: it is not a unix socket"), nc.Close())
	}
	return uc, nil
}

// Close closes the descriptor, if there is one.
func (d Descriptor) Close() {
	switch {
	case d.conn != nil:
		_ = d.conn.Close()
	case !d.IsNone():
		_ = unix.Close(d.FD)
	}
}

// AttachStream makes a link of v, whose socket it takes over.
func AttachStream(o StreamOptions, v State) (*stream, error) {
	return attach(v, func(conn *net.UnixConn) (*stream, error) {
		if most := frame.PrefixLen + frame.MaxLen; len(v.In) >= most || len(v.Out) >= most {
			return nil, fmt.Errorf("%d and %d bytes of frames are more than a frame", len(v.In), len(v.Out))
		}
		s, err := NewStream(conn, o)
		if err != nil {
			return nil, err
		}
		if len(v.In) > 0 {
			if err := s.acquire(); err != nil {
				return nil, err
			}
			s.have = copy(s.buf, v.In)
		}
		if len(v.Out) > 0 {
			if s.pipe.rest, err = chunks.get(); err != nil {
				return nil, fmt.Errorf("%w: %w", errNoMemory, err)
			}
			s.pipe.owe(v.Out)
		}
		return s, nil
	})
}

// AttachDatagram makes a link of v, whose socket it takes over.
func AttachDatagram(o DatagramOptions, v State) (*Datagram, error) {
	return attach(v, func(conn *net.UnixConn) (*Datagram, error) { return newDatagram(conn, o) })
}

// attach makes a link of v by open.
func attach[L interface{ output() *Outbox }](v State, open func(*net.UnixConn) (L, error)) (l L, err error) {
	conn, err := v.Socket.Conn()
	if err != nil {
		return l, err
	}
	made, err := open(conn)
	if err != nil {
		return l, errors.Join(fmt.Errorf("attach a client: %w", err), conn.Close())
	}
	made.output().Attach(v.Stats)
	return made, nil
}
