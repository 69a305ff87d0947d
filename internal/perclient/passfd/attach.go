// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// vmnetMaxPackets is how many packets vmnet moves in one call at most. vmnet-helper's clients are told.
const vmnetMaxPackets = 256

// attach serves a client that asks for a descriptor. The connection is its lifeline.
func (s *Server) attach(c *conn) {
	m, r, err := c.request()
	defer func() { m.Close() }() // also what came before an error
	ours, theirs := proto.None, proto.None
	if err == nil {
		ours, theirs, err = proto.Pair(r.Transport)
	}
	if err != nil {
		s.refuse(c, err)
		return
	}
	cl := c.client(r, "")
	cl.Theirs = link.Descriptor{FD: theirs}
	l, err := s.Link(&perclient.Detached{Client: cl, Link: link.State{Socket: link.Descriptor{FD: ours}}})
	if err != nil {
		cl.Theirs.Close()
		s.refuse(c, err)
		return
	}
	s.join(c, l, r.Transport, cl, true)
}

// client is what c's client says of itself by r. It is bound to a path, or connected if that is empty.
func (c *conn) client(r proto.Request, bound string) perclient.Client {
	cl := perclient.Client{
		Transport: status.PassedDatagram, Via: c.via, Path: bound, Name: r.Name, Peer: c.peer, MAC: r.MAC, InterfaceID: r.InterfaceID, Start: true,
	}
	if r.Transport == proto.Stream {
		cl.Transport = status.PassedStream
	}
	return cl
}

// request reads what the client asks for. The message has its descriptor, also with an error.
func (c *conn) request() (m proto.Message, r proto.Request, err error) {
	adopt := c.via == viaAdopt
	m, err = proto.ReadMessage(c.UnixConn, proto.MaxLine)
	c.bare = adopt && m.Bare
	r = proto.Request{Version: proto.Version, Transport: proto.Datagram}
	if err == nil && !c.bare {
		r, err = proto.DecodeRequest(m.Line)
	}
	switch {
	case err != nil || adopt == (m.FD != proto.None):
		return m, r, err
	case adopt:
		return m, r, &proto.Error{Code: proto.BadDescriptor, Text: "no descriptor came with the first byte"}
	}
	return m, r, &proto.Error{Code: proto.BadDescriptor, Text: "attach takes no descriptor; hand it over on the socket adopt"}
}

// join serves the client behind l, and tells it what came of that. It takes over l and cl.Theirs. lifeline: the session ends with c.
func (s *Server) join(c *conn, l link.Link, t proto.Transport, cl perclient.Client, lifeline bool) {
	// The session has copies of its own, which it may close at any time.
	theirs, err := copyOf(cl.Theirs)
	if err == nil && lifeline {
		cl.Lifeline, err = c.lifeline()
	}
	defer func() { theirs.Close() }()
	if err != nil {
		_ = l.Close()
		cl.Theirs.Close()
		s.refuse(c, err)
		return
	}
	x, err := s.begin(c, l, cl)
	if err != nil {
		s.refuse(c, err)
		return
	}
	info, err := s.started(c, x)
	switch {
	case errors.Is(err, perclient.ErrGone):
	case errors.Is(err, errStopped): // it is ended with all the others, and the next daemon may serve its socket
		s.refuse(c, err)
	case errors.Is(err, errReplaced): // it asks again
		x.GiveUp()
		s.refuse(c, err)
	case err != nil:
		s.refuse(c, err)
		x.End(err)
	default:
		fd := proto.None
		if !theirs.IsNone() {
			fd = theirs.FD
		}
		err = c.send(s.reply(t, l, info), fd)
		x.Told()
		if err != nil && lifeline {
			x.End(fmt.Errorf("reply not taken: %w", err))
		}
	}
}

// copyOf duplicates a descriptor.
func copyOf(d link.Descriptor) (link.Descriptor, error) {
	if d.IsNone() {
		return d, nil
	}
	fd, err := unix.FcntlInt(uintptr(d.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return link.Descriptor{}, fmt.Errorf("copy a descriptor for the session: %w", err)
	}
	return link.Descriptor{FD: fd}, nil
}

// lifeline is a connection of its own to c's client.
func (c *conn) lifeline() (link.Descriptor, error) {
	d, err := copyOf(link.Holding(c.UnixConn))
	if err != nil {
		return d, err
	}
	conn, err := d.Conn()
	if err != nil {
		return link.Descriptor{}, err
	}
	return link.Holding(conn), nil
}

// begin makes a session for the client behind l. It takes l and the descriptors of cl over.
func (s *Server) begin(c *conn, l link.Link, cl perclient.Client) (*perclient.Session, error) {
	x, err := s.opts.Clients.Serve(l, cl)
	if err != nil {
		if errors.Is(err, perclient.ErrStopping) {
			l.Shutdown(link.DrainStop) // the next daemon may serve it
		}
		_ = l.Close()
		cl.Theirs.Close()
		cl.Lifeline.Close()
		return nil, err
	}
	c.session = x
	return x, nil
}

// started waits for the interface of x, which c has asked for.
func (s *Server) started(c *conn, x *perclient.Session) (network.PortInfo, error) {
	limit, stop := context.WithTimeout(c.ctx, s.ready)
	defer stop()
	info, err := x.Ready(limit)
	switch {
	case err == nil:
	case c.ctx.Err() != nil:
		err = context.Cause(c.ctx)
	case errors.Is(err, context.DeadlineExceeded):
		err = &proto.Error{
			Code: proto.NoNetwork, Text: fmt.Sprintf("the client's interface did not start within %v; see the daemon's log", s.ready),
		}
	case !errors.Is(err, perclient.ErrGone) && !errors.Is(err, network.ErrClosed) && !errors.Is(err, network.ErrIDInUse):
		err = &proto.Error{Code: proto.NoNetwork, Text: "the client's interface did not start: " + err.Error()}
	}
	return info, err
}

// Link makes the link of a client that is new or was detached, whose socket it takes over: our end of a pair, or a descriptor that the
// client has handed over, and has as well.
func (s *Server) Link(v *perclient.Detached) (link.Link, error) {
	o := link.DatagramOptions{QueueSize: s.opts.QueueSize}
	if v.Client.Via == viaAdopt {
		o.Shared, o.As = true, giverOf(v.Client.Peer)
	}
	switch {
	case v.Link.Waits:
		return s.newPending(v.Client.Path, o, v.Link)
	case v.Client.Transport == status.PassedStream:
		return link.AttachStream(link.StreamOptions{QueueSize: o.QueueSize, Shared: o.Shared}, v.Link)
	}
	return link.AttachDatagram(o, v.Link)
}

// reply describes the network and a client's port on it.
func (s *Server) reply(t proto.Transport, l link.Link, p network.PortInfo) proto.Reply {
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

// maxPacket is the longest frame that the client has to expect, in bytes. Without offload no client sends one above the MTU, even
// where a network would carry it.
func maxPacket(n network.Info, l link.Link, p network.PortInfo) int {
	const ethernetHeader = 14
	most := min(p.MaxFrame, l.MaxFrame())
	if !n.Offload && p.MTU > 0 {
		most = min(most, p.MTU+ethernetHeader)
	}
	return most
}

// addr is a as text, empty if there is none.
func addr(a netip.Addr) string {
	b, _ := a.MarshalText()
	return string(b)
}

// send sends a reply, with fd unless that is proto.None.
func (c *conn) send(r proto.Reply, fd int) error {
	if err := c.SetWriteDeadline(time.Now().Add(replyTime)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return proto.WriteMessage(c.UnixConn, r.Encode(), fd)
}

// refuse tells the client why it is not served, unless it waits for no answer, and the log.
func (s *Server) refuse(c *conn, err error) {
	e := c.wire(err)
	if !errors.Is(err, io.EOF) { // one that left again without a word is no news
		s.complain(c, "client refused", "code", string(e.Code), "error", e.Text)
	}
	if !c.bare && c.send(proto.Reply{Error: e}, proto.None) == nil {
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

// wire is err as the client is told it.
func (c *conn) wire(err error) *proto.Error {
	if e, ok := errors.AsType[*proto.Error](err); ok && c.ctx.Err() == nil {
		return e
	}
	e := &proto.Error{Code: proto.Internal, Text: err.Error()}
	switch {
	case c.ctx.Err() != nil:
		e.Code, e.Text = proto.Stopping, context.Cause(c.ctx).Error()
	case errors.Is(err, perclient.ErrStopping), errors.Is(err, network.ErrClosed):
		e.Code, e.Text = proto.Stopping, errStopped.Error()
	case errors.Is(err, io.EOF):
		e.Code, e.Text = proto.BadRequest, "the connection ended before a request"
	case errors.Is(err, network.ErrIDInUse):
		e.Code = proto.IDInUse
	case errors.Is(err, perclient.ErrFull), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Code = proto.Full
	}
	return e
}
