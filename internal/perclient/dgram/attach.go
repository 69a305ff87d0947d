// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// A State is a halted Server without its clients, for the next image of this process.
type State struct {
	Sockets []socketState    `json:"sockets"` // the first one has the path
	Dropped map[cause]uint64 `json:"dropped,omitempty"`
}

// A socketState is a socket that clients send to.
type socketState struct {
	ID     int             `json:"id"`
	Socket link.Descriptor `json:"socket"`
	Kept   []keptClient    `json:"kept,omitempty"`
}

// A keptClient is the socket of a client that may come back by one of the Server's sockets, although it is not served.
type keptClient struct {
	Path []byte    `json:"path"` // any bytes
	At   link.File `json:"at"`
}

// State is what the next image needs besides the clients' links. The Server was halted before and stays as it is.
func (s *Server) State() State {
	v := State{Dropped: s.refused.counts()}
	s.mu.Lock()
	defer s.mu.Unlock()
	sockets := s.all()
	slices.Reverse(sockets) // all has the one with the path last
	for _, sh := range sockets {
		state := socketState{ID: sh.id, Socket: link.Holding(sh.conn)}
		for _, t := range sh.kept {
			state.Kept = append(state.Kept, keptClient{Path: []byte(t.path), At: t.file()})
		}
		v.Sockets = append(v.Sockets, state)
	}
	return v
}

// Descriptors are those that v holds.
func (v *State) Descriptors() (d []link.Descriptor) {
	for _, s := range v.Sockets {
		d = append(d, s.Socket)
		for _, k := range s.Kept {
			d = append(d, k.At.Pin)
		}
	}
	return slices.DeleteFunc(d, link.Descriptor.IsNone)
}

func (t *target) file() link.File {
	return link.File{UID: t.uid, Dev: t.id.dev, Ino: t.id.ino, Pin: t.pin.descriptor()}
}

// Attach makes the Server that another image has left as v, whose descriptors it takes over; o.Conn is the one that has the path. Its
// clients are those for which Link is called.
func Attach(o Options, v State) (*Server, error) {
	if len(v.Sockets) == 0 {
		return nil, errors.New("take over the datagram socket: there is none")
	}
	conn, err := v.Sockets[0].Socket.Conn()
	if err != nil {
		return nil, fmt.Errorf("take over the datagram socket: %w", err)
	}
	o.Conn = conn
	s, err := New(o)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s.cur.take(v.Sockets[0])
	for _, state := range v.Sockets[1:] {
		s.attachOld(state)
	}
	s.refused.restore(v.Dropped)
	return s, nil
}

// attachOld takes over a socket that has the path no more.
func (s *Server) attachOld(v socketState) {
	conn, err := v.Socket.Conn()
	if err != nil {
		return
	}
	sh, err := newShared(s, conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	sh.take(v)
	s.old[sh] = struct{}{}
}

// take gives sh what v has of it.
func (sh *shared) take(v socketState) {
	sh.id, sh.srv.lastID = v.ID, max(sh.srv.lastID, v.ID)
	for _, k := range v.Kept {
		if t, err := targetOf(k.Path, k.At); err == nil {
			sh.kept[t.id] = t
		}
	}
}

// targetOf makes the target of a client that another link has let go. It takes its pin over.
func targetOf(path []byte, at link.File) (*target, error) {
	if r := classify(path); r != "" {
		at.Pin.Close()
		return nil, &untrusted{Path: string(path), Reason: r, Advice: adviceFor(r)}
	}
	id := inode{dev: at.Dev, ino: at.Ino}
	p, err := pinOf(at.Pin, id)
	if err != nil {
		return nil, err
	}
	t := &target{path: string(path), uid: at.UID, id: id, pin: p}
	t.to = []byte(t.name())
	return t, nil
}

// Detach implements link.Link. The reply socket goes over as it is: what its client has not read is charged to it, and one whose
// client has connected its socket meanwhile could not be made again. So does the pinned inode: the same number may be another file's
// by the time of the next link.
func (c *client) Detach() link.State {
	c.pipe.wake()
	c.out.Detach()
	c.srv.forget(c)
	v := link.State{Stats: c.Stats()}
	v.Stats.Queued = 0
	p := c.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil {
		return v // it has gone
	}
	at := p.target.file()
	if p.reply != nil {
		v.Socket = link.Holding(p.reply.conn)
	}
	if p.via != nil {
		at.Via = p.via.id
		p.via.leave(p.target.id, nil)
	}
	p.target, p.reply, p.via, p.stopped = nil, nil, nil, true
	v.At = &at
	return v
}

// Link makes the link of the client at path that was detached as v, whose descriptors it takes over. The path is not looked at: the
// inode is what counts.
func (s *Server) Link(path string, v link.State) (link.Link, error) {
	if v.At == nil {
		v.Socket.Close()
		return nil, errors.New("the client's socket is not known")
	}
	t, err := targetOf([]byte(path), *v.At)
	if err != nil {
		v.Socket.Close()
		return nil, err
	}
	p, err := s.pipeOf(t, v)
	if err != nil {
		t.close()
		return nil, err
	}
	c := clientOn(s, p)
	c.frames.Store(v.Stats.ToNetFrames)
	c.bytes.Store(v.Stats.ToNetBytes)
	c.runts.Store(v.Stats.DropRunt)
	c.longs.Store(v.Stats.DropLong)
	c.early.Store(v.Stats.DropStarting)
	c.out.Attach(v.Stats)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c.path] = c
	return c, nil
}

// pipeOf makes the pipe to t, which it owns unless there is an error.
func (s *Server) pipeOf(t *target, v link.State) (*pipe, error) {
	p := &pipe{srv: s, path: t.path, uid: t.uid, sender: mmsg.NewSender(), target: t}
	if v.Socket.IsNone() {
		s.mu.Lock()
		sockets := s.all()
		s.mu.Unlock()
		i := slices.IndexFunc(sockets, func(sh *shared) bool { return sh.id == v.At.Via })
		if i < 0 {
			return nil, errors.New("the socket that it is answered by is lost")
		}
		p.answerBy(sockets[i])
		return p, nil
	}
	conn, err := v.Socket.Conn()
	if err != nil {
		return nil, fmt.Errorf("take over a reply socket: %w", err)
	}
	// One that has no peer any more is a client's that has gone: the first frame for it tells.
	if peer, ok := conn.RemoteAddr().(*net.UnixAddr); ok && peer != nil && peer.Name != "" && peer.Name != t.path {
		_ = conn.Close()
		return nil, fmt.Errorf("take over a reply socket: %w: %q", errElsewhere, peer.Name)
	}
	p.reply, err = newReply(conn)
	return p, err
}

// Invite serves the client at path before it says a word: it may have been one of an earlier process, and its guest may have
// nothing to say for long. The path is checked as if a datagram had come. One that has connected its socket to the earlier
// process's is none any more, and an address that has a client already is left alone. It may be called before Run, and may take as
// long as a look at the path does.
func (s *Server) Invite(path string) error {
	s.mu.Lock()
	_, there := s.clients[path]
	s.mu.Unlock()
	if there {
		return nil
	}
	t, err := s.look.check(s.opts.Trust, path)
	if err != nil {
		return err
	}
	defer t.close()
	conn, err := t.connect()
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("client %q is connected to a socket that is gone: start it again", path)
	}
	if err != nil {
		return unreachable(path, err)
	}
	_ = conn.Close()
	_, err = s.admit(path, sender{uid: t.uid, known: true}, s.current())
	return err
}
