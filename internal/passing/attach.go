// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// vmnetMaxPackets is how many packets vmnet moves in one call at most. vmnet-helper's clients are told.
const vmnetMaxPackets = 256

// attach serves a client that asks for a descriptor. The connection is its lifeline.
func (s *Server) attach(c *conn) (rest func()) {
	r, err := c.readAttach()
	if err != nil {
		s.refuse(c, err)
		return nil
	}
	ours, theirs, err := proto.Pair(r.Transport)
	if err != nil {
		s.refuse(c, err)
		return nil
	}
	l, err := s.newLink(ours, r.Transport, link.DatagramOptions{})
	if err != nil {
		_ = unix.Close(theirs)
		s.refuse(c, err)
		return nil
	}
	return s.join(&member{conn: c, link: l, request: r, lifeline: true, theirs: theirs})
}

// readAttach reads what the client asks for.
func (c *conn) readAttach() (proto.Request, error) {
	m, err := proto.ReadMessage(c.UnixConn, proto.MaxLine)
	var r proto.Request
	defer m.Close() // also what came before an error
	if err == nil {
		r, err = proto.DecodeRequest(m.Line)
	}
	if err == nil && m.FD != proto.None {
		err = &proto.Error{Code: proto.BadDescriptor, Text: "attach takes no descriptor; hand it over on the socket adopt"}
	}
	return r, err
}

// join serves m and tells the client what came of it. The rest waits for the session's end, if the connection is its
// lifeline. It takes m over.
func (s *Server) join(m *member) (rest func()) {
	m.owed = true
	defer func() {
		if rest == nil { // also after a panic
			m.closeTheirs()
		}
	}()
	if err := s.begin(m); err != nil {
		s.refuse(m.conn, err)
		return nil
	}
	return s.conclude(m)
}

// conclude waits for the interface of m, which has a session, and answers the client. The rest is as of join, and without one
// the client's end of the pair is the caller's to close.
func (s *Server) conclude(m *member) (rest func()) {
	c := m.conn
	info, err := s.started(m)
	if err != nil {
		if !errors.Is(err, errStopped) { // else it is ended with all the others, and the next daemon may serve its socket
			m.session.End(err)
		}
		s.refuse(c, err)
		return nil
	}
	err = c.send(s.reply(m.request.Transport, m.link, info), m.theirs)
	s.answered(m)
	if !m.lifeline {
		return nil // a client that did not wait for the answer has what it wanted
	}
	if err != nil {
		m.session.End(fmt.Errorf("reply not taken: %w", err))
	}
	return m.outlive
}

// started waits for the interface of m, in vain if its lifeline ends before. While the server is paused it stands still.
func (s *Server) started(m *member) (info vnet.PortInfo, err error) {
	for {
		if info, err = s.startedOnce(m); !errors.Is(err, errPausing) {
			return info, err
		}
		s.stand(m.conn)
	}
}

func (s *Server) startedOnce(m *member) (vnet.PortInfo, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	s.interruptible(m, cancel)
	defer s.interruptible(m, nil)
	if m.lifeline {
		defer m.conn.hold(cancel)()
	}
	return s.ready(ctx, m.session)
}

// ready waits for x's interface. Its error is a *notStarted.
func (s *Server) ready(ctx context.Context, x session) (vnet.PortInfo, error) {
	limit, stop := context.WithTimeout(ctx, s.times.ready)
	defer stop()
	info, err := x.Ready(limit)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return info, &notStarted{err}
	}
	return info, nil
}

// newLink makes the link on our end of a pair, or, with o saying so, on a descriptor that its sender has as well. It takes fd
// over.
func (s *Server) newLink(fd int, t proto.Transport, o link.DatagramOptions) (link.Link, error) {
	uc, err := unixConn(fd)
	if err != nil {
		return nil, err
	}
	var l link.Link
	if t == proto.Stream {
		l, err = link.NewStream(uc, link.StreamOptions{QueueSize: s.opts.QueueSize, Shared: o.Shared})
	} else {
		o.QueueSize = s.opts.QueueSize
		l, err = link.NewDatagram(uc, o)
	}
	if err != nil {
		_ = uc.Close()
		return nil, fmt.Errorf("use the socket: %w", err)
	}
	return l, nil
}

// unixConn makes a connection of a descriptor, which it takes over.
func unixConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "client")
	defer func() { _ = f.Close() }() // the connection has a duplicate
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use the socket: %w", err)
	}
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		_ = nc.Close()
		return nil, errors.New("use the socket: it is no unix socket")
	}
	return uc, nil
}

// reply describes the network and a client's port on it.
func (s *Server) reply(t proto.Transport, l link.Link, p vnet.PortInfo) proto.Reply {
	n := s.opts.Network()
	r := proto.Reply{
		Version: proto.Version, Transport: t, Backend: n.Backend, Mode: string(n.Mode), Interface: n.Interface,
		Gateway: addr(n.Gateway), Isolated: n.Isolated, Offload: n.Offload,
		MTU: p.MTU, MaxPacketSize: maxPacket(n, l, p), InterfaceID: p.InterfaceID,
		StartAddress: addr(n.Gateway), EndAddress: addr(n.DHCPEnd),
	}
	if p.MAC != nil {
		r.MACAddress = p.MAC.String()
	}
	if n.Subnet.IsValid() && n.Subnet.Addr().Is4() {
		r.SubnetMask = net.IP(net.CIDRMask(n.Subnet.Bits(), 32)).String()
	}
	if n.Backend == "vmnet" {
		r.ReadMaxPackets, r.WriteMaxPackets = vmnetMaxPackets, vmnetMaxPackets
	}
	return r
}

// maxPacket is the longest frame that the client has to expect, in bytes. Without offload nobody sends one above the MTU, even
// where a network would carry it.
func maxPacket(n vnet.NetworkInfo, l link.Link, p vnet.PortInfo) int {
	const ethernetHeader = 14
	most := min(p.MaxFrame, l.MaxFrame())
	if !n.Offload && p.MTU > 0 {
		most = min(most, p.MTU+ethernetHeader)
	}
	return most
}

// addr is a as text, empty if there is none.
func addr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// send sends a reply, with fd unless that is proto.None.
func (c *conn) send(r proto.Reply, fd int) error {
	if err := c.SetWriteDeadline(time.Now().Add(replyTime)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return proto.WriteMessage(c.UnixConn, r.Encode(), fd)
}

// refuse tells the client why it is not served, and the log.
func (s *Server) refuse(c *conn, err error) {
	e := c.wire(err)
	if !errors.Is(err, io.EOF) && !errors.Is(err, errLifeline) { // one that left again without a word is no news
		s.complain(c, "client refused", "code", string(e.Code), "error", e.Text)
	}
	if c.send(proto.Reply{Error: e}, proto.None) == nil {
		c.settle()
	}
}

// settle reads what the client has still sent: closing with something unread would be a reset for it, perhaps in front of
// the reply.
func (c *conn) settle() {
	const most = 16
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(settleTime))
	buf := make([]byte, proto.MaxLine)
	for range most {
		if _, err := proto.Discard(c.UnixConn, buf); err != nil {
			return
		}
	}
}

// notStarted is why a client's interface did not start.
type notStarted struct{ error }

func (e *notStarted) Error() string {
	return "the client's interface did not start: " + e.error.Error()
}
func (e *notStarted) Unwrap() error { return e.error }

// wire is err as the client is told it.
func (c *conn) wire(err error) *proto.Error {
	s := c.srv
	if e, ok := errors.AsType[*proto.Error](err); ok && s.ctx.Err() == nil && !c.cut.Load() {
		return e
	}
	e := &proto.Error{Code: proto.Internal, Text: err.Error()}
	switch {
	case s.ctx.Err() == nil && c.cut.Load():
		e.Code, e.Text = proto.Stopping, errReplaced.Error()
	case s.ctx.Err() != nil, errors.Is(err, perclient.ErrStopping), errors.Is(err, vnet.ErrClosed):
		e.Code, e.Text = proto.Stopping, errStopped.Error()
	case errors.Is(err, io.EOF):
		e.Code, e.Text = proto.BadRequest, "the connection ended before a request"
	case errors.Is(err, vnet.ErrIDInUse):
		e.Code = proto.IDInUse
	case errors.Is(err, perclient.ErrFull):
		e.Code = proto.Full
	case errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Text = proto.NoNetwork, fmt.Sprintf("the client's interface did not start within %v; see the daemon's log", s.times.ready)
	case errors.As(err, new(*notStarted)):
		e.Code = proto.NoNetwork
	}
	return e
}
