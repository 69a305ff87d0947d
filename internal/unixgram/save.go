// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// Saved is a paused Server for another process image. Descriptors are by number.
type Saved struct {
	Sockets []SavedSocket     `json:"sockets"` // the first one has the path
	Clients []SavedClient     `json:"clients,omitempty"`
	Dropped map[Reason]uint64 `json:"dropped,omitempty"`
}

// A SavedSocket is one that clients send to.
type SavedSocket struct {
	FD   int           `json:"fd"`
	Kept []SavedTarget `json:"kept,omitempty"` // of clients that may come back by it
}

// A SavedTarget is a client's socket in the file system.
type SavedTarget struct {
	Path []byte `json:"path"` // any bytes
	UID  uint32 `json:"uid"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Pin  int    `json:"pin"` // the descriptor that holds the inode; -1 where the system has none
}

// A SavedClient is a client in the table.
type SavedClient struct {
	SavedTarget
	Reply   int             `json:"reply"`         // its reply socket; -1 if it is answered by one of the sockets
	Via     int             `json:"via,omitempty"` // that one's index
	Session perclient.Saved `json:"session"`
}

// Save is what another image needs to serve the same clients, and notes the descriptors that it needs in o. Pause was called
// before, and every session is paused. A client without a session is left out: its next datagram makes it one again.
//
// The reply sockets are carried, not made again: what their clients have not read is charged to them, and one whose client has
// connected its socket meanwhile could not be made again. So is the pinned inode: the same number may be another file's by
// then.
func (s *Server) Save(o *handoff.Out) Saved {
	v := Saved{Dropped: s.refused.counts()}
	s.mu.Lock()
	clients, sockets := s.list(), s.all()
	slices.Reverse(sockets) // all has the one with the path last
	for _, sh := range sockets {
		saved := SavedSocket{FD: o.FD(sh.fd)}
		for _, t := range sh.kept {
			saved.Kept = append(saved.Kept, t.save(o))
		}
		v.Sockets = append(v.Sockets, saved)
	}
	s.mu.Unlock()
	for _, c := range clients {
		if c.session == nil {
			continue
		}
		session, ok := c.session.Save()
		if !ok {
			continue
		}
		if t, reply, via, ok := c.pipe.save(o); ok {
			v.Clients = append(v.Clients, SavedClient{SavedTarget: t, Reply: reply, Via: max(0, slices.Index(sockets, via)), Session: session})
		}
	}
	return v
}

// save is what the client is sent to by; false: nothing any more.
func (p *pipe) save(o *handoff.Out) (t SavedTarget, reply int, via *shared, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil {
		return t, -1, nil, false
	}
	reply = -1
	if p.reply != nil {
		reply = o.FD(p.reply.fd)
	}
	return p.target.save(o), reply, p.via, true
}

func (t *Target) save(o *handoff.Out) SavedTarget {
	return SavedTarget{Path: []byte(t.path), UID: t.uid, Dev: t.id.dev, Ino: t.id.ino, Pin: t.pin.save(o)}
}

// Restore makes the Server that another process image has saved as v; o.Conn is the one that it had. The clients are in the table
// and served as soon as it returns, without a look at their paths. A client that cannot be restored is logged and costs itself
// only. An error: there is no Server, and nothing of v was taken over but perhaps the shared socket, which is closed.
func Restore(o Options, in *handoff.In, v Saved) (*Server, error) {
	if len(v.Sockets) == 0 {
		return nil, errors.New("restore the datagram socket: there is none")
	}
	conn, err := in.UnixConn(v.Sockets[0].FD)
	if err != nil {
		return nil, fmt.Errorf("restore the datagram socket: %w", err)
	}
	o.Conn = conn
	s, err := New(o)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s.refused.restore(v.Dropped)
	s.pause.over.Store(true)
	sockets := []*shared{s.cur}
	for _, saved := range v.Sockets[1:] {
		sockets = append(sockets, s.restoreOld(in, saved))
	}
	for i := range v.Clients {
		if err := s.restore(in, &v.Clients[i], sockets); err != nil {
			s.opts.Log.Warn("a datagram client is lost in the upgrade; its next frame makes it one again",
				"path", string(v.Clients[i].Path), "error", err)
		}
	}
	s.wakeSweep()
	s.wantTurn()
	return s, nil
}

// restoreOld takes over a socket that has the path no more; nil if it cannot be.
func (s *Server) restoreOld(in *handoff.In, v SavedSocket) *shared {
	conn, err := in.UnixConn(v.FD)
	if err != nil {
		return nil
	}
	sh, err := newShared(s, conn)
	if err != nil {
		_ = conn.Close()
		return nil
	}
	for _, k := range v.Kept {
		if t, err := k.target(in); err == nil {
			sh.kept[t.id] = t
		}
	}
	s.old[sh] = struct{}{}
	return sh
}

// restore makes a client of v and has it served.
func (s *Server) restore(in *handoff.In, v *SavedClient, sockets []*shared) error {
	t, err := v.target(in)
	if err != nil {
		return err
	}
	p, err := s.restorePipe(in, v, t, sockets)
	if err != nil {
		t.Close()
		return err
	}
	c := clientOn(s, p)
	c.restore(v.Session.Link)
	s.mu.Lock()
	s.clients[c.path] = c
	s.mu.Unlock()
	s.wakeSweep()
	if err := s.serve(c, func() (Session, error) { return s.opts.Restored(c, c.path, c.uid, v.Session) }); err != nil {
		c.end(err)
		_ = c.Close()
		return err
	}
	return nil
}

// target makes the Target that was saved.
func (v *SavedTarget) target(in *handoff.In) (*Target, error) {
	path := string(v.Path)
	if r := classify(v.Path); r != "" {
		return nil, &Untrusted{Path: path, Reason: r, Advice: adviceFor(r)}
	}
	id := inode{dev: v.Dev, ino: v.Ino}
	p, err := restorePin(in, v.Pin, id)
	if err != nil {
		return nil, err
	}
	t := &Target{path: path, uid: v.UID, id: id, pin: p}
	t.to = []byte(t.name())
	return t, nil
}

// restorePipe makes the pipe to t, which it owns unless there is an error.
func (s *Server) restorePipe(in *handoff.In, v *SavedClient, t *Target, sockets []*shared) (*pipe, error) {
	if v.Via < 0 || v.Via >= len(sockets) || sockets[v.Via] == nil {
		return nil, errors.New("the socket that it is answered by is lost")
	}
	p := &pipe{srv: s, path: t.path, uid: t.uid, sender: mmsg.NewSender(), target: t}
	if v.Reply < 0 {
		p.answerBy(sockets[v.Via])
		return p, nil
	}
	conn, err := in.UnixConn(v.Reply)
	if err != nil {
		return nil, fmt.Errorf("restore a reply socket: %w", err)
	}
	// One that has no peer any more is a client's that has gone: the first frame for it tells.
	if peer, ok := conn.RemoteAddr().(*net.UnixAddr); ok && peer != nil && peer.Name != "" && peer.Name != t.path {
		_ = conn.Close()
		return nil, fmt.Errorf("restore a reply socket: %w: %q", errElsewhere, peer.Name)
	}
	p.reply, err = newReply(conn)
	return p, err
}

// restore gives c what v has of it.
func (c *client) restore(v link.Saved) {
	b, _, _, _ := frame.Scan(v.In) // whole frames, of ours
	c.held, c.heldN = b.Bytes(), b.Len()
	c.frames.Store(v.Stats.ToNetFrames)
	c.bytes.Store(v.Stats.ToNetBytes)
	c.runts.Store(v.Stats.DropRunt)
	c.longs.Store(v.Stats.DropLong)
	c.early.Store(v.Stats.DropStarting)
	c.out.Count(v.Stats)
}
