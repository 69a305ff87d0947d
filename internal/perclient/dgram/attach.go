// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// A State is a halted Server without its clients, for the next image of this process.
type State struct {
	Sockets []socketState `json:"sockets"` // the first one has the path
}

// A socketState is a socket that clients send to.
type socketState struct {
	ID     int             `json:"id"`
	Socket link.Descriptor `json:"socket"`
	found  bool
}

// State is what the next image needs besides the clients' links. The Server was halted before and stays as it is.
func (s *Server) State() (v State) {
	for _, sh := range slices.Backward(s.all()) {
		v.Sockets = append(v.Sockets, socketState{ID: sh.id, Socket: link.Holding(sh.conn)})
	}
	return v
}

// Stored is the State of the sockets, by their numbers, of which Options.Store kept copies.
func Stored(fds map[int]int) (v State) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(fds))) {
		v.Sockets = append(v.Sockets, socketState{ID: id, Socket: link.Descriptor{FD: fds[id]}, found: true})
	}
	return v
}

// Descriptors are those that v holds.
func (v *State) Descriptors() (d []link.Descriptor) {
	for _, s := range v.Sockets {
		d = append(d, s.Socket)
	}
	return d
}

// Attach makes the Server that another image has left as v, whose descriptors it takes over; the one that has the path is in the place
// of o.Conn, unless there is one of these as well, which has it then. Its clients are those for which Link is called.
func Attach(o Options, v State) (*Server, error) {
	s := newServer(o)
	err := errors.New("there is none")
	for _, state := range slices.Backward(v.Sockets) {
		var conn *net.UnixConn
		if conn, err = state.Socket.Conn(); err != nil {
			continue // it costs its clients, unless it has the path
		}
		if _, err = s.add(conn, state.ID, state.found); err != nil {
			_ = conn.Close()
		}
	}
	if o.Conn != nil {
		_, err = s.add(o.Conn, 0, false)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("take over the datagram socket: %w", err)
	}
	return s, nil
}

// Detach implements link.Link. The reply socket goes over as it is: what its client has not read is charged to it, and one whose
// client has connected its socket meanwhile could not be made again. So does the pinned inode: the same number may be another file's
// by the time of the next link.
func (c *client) Detach() link.State {
	p := c.pipe
	p.mu.Lock()
	p.reply.wake()
	via := p.via
	p.mu.Unlock()
	c.out.Detach()
	c.srv.forget(c)
	v := link.State{Stats: c.Stats()}
	v.Stats.Queued = 0
	t, r := p.release()
	if t == nil {
		return v // it has gone
	}
	v.At = &link.File{UID: t.uid, Dev: t.id.dev, Ino: t.id.ino, Pin: t.pin}
	if r != nil {
		v.Socket = link.Holding(r.UnixConn)
	} else if via != nil {
		v.At.Via = via.id
	}
	return v
}

// Link makes the link of the client at path that was detached as v, whose descriptors it takes over. The path is not looked at: the
// inode is what counts.
func (s *Server) Link(path string, v link.State) (link.Link, error) {
	if v.At == nil || classify([]byte(path)) != "" {
		v.Socket.Close()
		return nil, errors.New("the client's socket is not known")
	}
	c := newClient(s, path, sender{uid: v.At.UID, known: true})
	c.uid = v.At.UID
	c.pipe.target = newTarget(path, c.uid, inode{dev: v.At.Dev, ino: v.At.Ino}, v.At.Pin)
	if err := c.pipe.attach(v); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.out.Attach(v.Stats)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[path] = c
	return c, nil
}

// attach goes on by the socket that v was answered by.
func (p *pipe) attach(v link.State) error {
	if v.Socket.IsNone() {
		sockets := p.srv.all()
		i := slices.IndexFunc(sockets, func(sh *shared) bool { return sh.id == v.At.Via })
		if i < 0 || !p.answerBy(sockets[i]) {
			return errors.New("the socket that it is answered by is lost")
		}
		return nil
	}
	conn, err := v.Socket.Conn()
	if err != nil {
		return fmt.Errorf("take over a reply socket: %w", err)
	}
	// One that has no peer any more is a client's that has gone: the first frame for it tells.
	if peer, ok := conn.RemoteAddr().(*net.UnixAddr); ok && peer != nil && peer.Name != "" && peer.Name != p.path {
		_ = conn.Close()
		return fmt.Errorf("take over a reply socket: %w: %q", errElsewhere, peer.Name)
	}
	p.reply, err = newReply(conn)
	return err
}
