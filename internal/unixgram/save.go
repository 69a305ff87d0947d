// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"fmt"
	"net"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// Saved is a paused Server for another process image. Descriptors are by number.
type Saved struct {
	FD      int               `json:"fd"` // of the shared socket
	Clients []SavedClient     `json:"clients,omitempty"`
	Left    []SavedTarget     `json:"left,omitempty"` // clients that have gone and left something unread
	Dropped map[Reason]uint64 `json:"dropped,omitempty"`
}

// A SavedTarget is a client's socket in the file system.
type SavedTarget struct {
	Path []byte `json:"path"` // any bytes
	UID  uint32 `json:"uid"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Pin  int    `json:"pin"`            // the descriptor that holds the inode; -1 where the system has none
	Used int    `json:"used,omitempty"` // charged bytes that are perhaps unread at the shared socket
}

// A SavedClient is a client in the table.
type SavedClient struct {
	SavedTarget
	Reply   int             `json:"reply"` // its reply socket; -1 if it is served through the shared socket
	Session perclient.Saved `json:"session"`
}

// Save is what another image needs to serve the same clients, and notes the descriptors that it needs in o. Pause was called
// before, and every session is paused. A client without a session is left out: its next datagram makes it one again.
//
// The reply sockets are carried, not made again: what their clients have not read is charged to them, and one whose client has
// connected its socket meanwhile could not be made again. So is the pinned inode: the same number may be another file's by
// then.
func (s *Server) Save(o *handoff.Out) Saved {
	v := Saved{FD: o.FD(s.shared.fd), Dropped: s.refused.counts()}
	s.mu.Lock()
	all := s.list()
	s.mu.Unlock()
	for _, c := range all {
		session, ok := s.opts.Save(c.path)
		if !ok {
			continue
		}
		if t, reply, ok := c.pipe.save(o); ok {
			v.Clients = append(v.Clients, SavedClient{SavedTarget: t, Reply: reply, Session: session})
		}
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for _, l := range s.shared.left {
		v.Left = append(v.Left, l.target.save(o, l.account.used))
	}
	return v
}

// save is what the client is sent to by; false: nothing any more.
func (p *pipe) save(o *handoff.Out) (t SavedTarget, reply int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil {
		return t, -1, false
	}
	reply = -1
	if p.reply != nil {
		reply = o.FD(p.reply.fd)
	}
	return p.target.save(o, p.account.used), reply, true
}

// save is t, of which used bytes are unread.
func (t *Target) save(o *handoff.Out, used int) SavedTarget {
	return SavedTarget{Path: []byte(t.path), UID: t.uid, Dev: t.id.dev, Ino: t.id.ino, Pin: t.pin.save(o), Used: used}
}

// Restore makes the Server that another process image has saved as v; o.Conn is the one that it had. The clients are in the table
// and served as soon as it returns, without a look at their paths. A client that cannot be restored is logged and costs itself
// only. An error: there is no Server, and nothing of v was taken over but perhaps the shared socket, which is closed.
func Restore(o Options, in *handoff.In, v Saved) (*Server, error) {
	conn, err := in.UnixConn(v.FD)
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
	for i := range v.Clients {
		if err := s.restore(in, &v.Clients[i]); err != nil {
			s.opts.Log.Warn("a datagram client is lost in the upgrade; its next frame makes it one again",
				"path", string(v.Clients[i].Path), "error", err)
		}
	}
	for _, l := range v.Left {
		s.restoreLeft(in, l)
	}
	return s, nil
}

// restore makes a client of v and has it served.
func (s *Server) restore(in *handoff.In, v *SavedClient) error {
	t, err := v.target(in)
	if err != nil {
		return err
	}
	p, err := s.restorePipe(in, v, t)
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
	if err := s.serve(func() error { return s.opts.Restored(c, c.path, c.uid, v.Session) }); err != nil {
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
func (s *Server) restorePipe(in *handoff.In, v *SavedClient, t *Target) (*pipe, error) {
	p := &pipe{srv: s, path: t.path, uid: t.uid, sender: mmsg.NewSender(), target: t}
	if v.Reply < 0 {
		a, err := s.shared.open(t)
		if err != nil {
			return nil, unreachable(t.path, err)
		}
		a.charge(max(0, v.Used))
		p.account = a
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

// restoreLeft charges what a client has left unread that has gone.
func (s *Server) restoreLeft(in *handoff.In, v SavedTarget) {
	t, err := v.target(in)
	if err != nil {
		return // nobody is there to miss it
	}
	a, err := s.shared.open(t)
	if err != nil {
		t.Close()
		return
	}
	a.charge(max(0, v.Used))
	s.shared.mu.Lock()
	s.shared.left = append(s.shared.left, leftover{account: a, target: t})
	s.shared.mu.Unlock()
	s.wakeSweep()
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
