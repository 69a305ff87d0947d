// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// upgrade detaches everything and attaches it again, in this Server or in another one as the next image does. between, if not nil, is
// called between the two.
func (r *rig) upgrade(t *testing.T, sameProcess bool, between func([]perclient.Detached)) {
	t.Helper()
	r.Detach()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list, err := r.opts.Clients.Detach(ctx, func() {}, func() {}, nil)
	require.NoError(t, err)
	if !sameProcess {
		list = overTheWire(t, list)
		o := r.opts
		o.Clients = perclient.NewServer(perclient.Options{Network: r.net, Log: o.Log})
		next := NewServer(o)
		next.self, next.request, next.ready = r.self, r.request, r.ready
		r.Server = next
		r.now.Store(next)
	}
	if between != nil {
		between(list)
	}
	require.Empty(t, r.opts.Clients.Attach(list, r.Link))
	r.Attach()
}

// overTheWire is what the next image gets: descriptors in place of connections, which are closed.
func overTheWire(t *testing.T, list []perclient.Detached) (v []perclient.Detached) {
	t.Helper()
	b, err := json.Marshal(list)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	move := func(was, is *link.Descriptor) {
		if was.IsNone() {
			return
		}
		is.FD, err = unix.FcntlInt(uintptr(was.FD), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(t, err)
		was.Close()
	}
	for i := range v {
		move(&list[i].Link.Socket, &v[i].Link.Socket)
		move(&list[i].Client.Lifeline, &v[i].Client.Lifeline)
		move(&list[i].Client.Theirs, &v[i].Client.Theirs)
	}
	return v
}

// carried are the ways in which a client may have come.
var carried = []struct {
	name      string
	transport proto.Transport
	adopt     *proto.Request // nil: bare
	attach    bool
	lifeline  bool
}{
	{name: "attach dgram", attach: true, transport: proto.Datagram, lifeline: true},
	{name: "attach stream", attach: true, transport: proto.Stream, lifeline: true},
	{name: "adopt bare", transport: proto.Datagram},
	{name: "adopt dgram", transport: proto.Datagram, adopt: &proto.Request{}},
	{name: "adopt stream", transport: proto.Stream, adopt: &proto.Request{Transport: proto.Stream}},
	{name: "adopt dgram and wait", transport: proto.Datagram, adopt: &proto.Request{Wait: true}, lifeline: true},
	{name: "adopt stream and wait", transport: proto.Stream, adopt: &proto.Request{Transport: proto.Stream, Wait: true}, lifeline: true},
}

// come brings a client: its end of the socket, and the lifeline if there is one.
func (r *rig) come(t *testing.T, i int) (end, lifeline *os.File) {
	t.Helper()
	c := carried[i]
	if c.attach {
		a := r.attach(t, proto.Request{Transport: c.transport, Name: "web", MAC: testMAC})
		return a.File, a.Lifeline
	}
	kept, a := r.adopt(t, c.transport, c.adopt)
	if a.Lifeline != nil {
		t.Cleanup(func() { _ = a.Lifeline.Close() })
	}
	return kept, a.Lifeline
}

// wire is a frame of n bytes as it goes over a transport.
func wire(n int, t proto.Transport) []byte {
	if t == proto.Stream {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), ethernet(n)...)
	}
	return ethernet(n)
}

// TestUpgrade: clients are served on, however they came, over several upgrades that fail or do not, and end as they do otherwise.
func TestUpgrade(t *testing.T) {
	for i, c := range carried {
		for _, ends := range []string{"lifeline", "socket"} {
			if ends == "lifeline" && !c.lifeline {
				continue
			}
			t.Run(c.name+", "+ends, func(t *testing.T) {
				r := newRig(t, elsewhere)
				end, lifeline := r.come(t, i)
				before := r.only(t)
				exchange(t, end, c.transport)
				for _, sameProcess := range []bool{false, true, false} {
					r.upgrade(t, sameProcess, func(list []perclient.Detached) {
						require.Len(t, list, 1)
						assert.Equal(t, c.lifeline, !list[0].Client.Lifeline.IsNone())
						_, err := end.Write(wire(60, c.transport)) // waits in the socket
						require.NoError(t, err)
					})
					got := make([]byte, len(wire(60, c.transport)))
					_, err := io.ReadFull(end, got)
					require.NoError(t, err)
					assert.Equal(t, wire(60, c.transport), got)
					exchange(t, end, c.transport)
				}
				after := r.only(t)
				assert.Equal(t, before.ID, after.ID)
				assert.Equal(t, before.Name, after.Name)
				assert.Equal(t, before.Peer, after.Peer)
				assert.EqualValues(t, 15, after.Link.ToNetFrames, "counters go on")
				if ends == "lifeline" {
					require.NoError(t, lifeline.Close())
					r.gone(t, lifelineEnded)
					return
				}
				require.NoError(t, end.Close())
				r.unheard(t)
				if lifeline != nil {
					atEnd(t, lifeline)
				}
			})
		}
	}
}

// TestUpgradeOfABoundSocket whose first sender is not known, comes while nothing listens, and then is known.
func TestUpgradeOfABoundSocket(t *testing.T) {
	r := newRig(t, func(r *rig) { elsewhere(r); r.opts.Trust.AllowUIDs = []uint32{uint32(os.Geteuid())} })
	dir := vnettest.ShortDir(t)
	path := filepath.Join(dir, "b")
	f := bindAt(t, path)
	_, err := proto.Adopt(t.Context(), r.dir, f, nil)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r.only(t)

	r.upgrade(t, true, func(list []perclient.Detached) { require.True(t, list[0].Link.Waits) })
	var vm *net.UnixConn
	r.upgrade(t, false, func(list []perclient.Detached) {
		require.True(t, list[0].Link.Waits)
		vm, err = net.DialUnix("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "vm"), Net: "unixgram"}, &net.UnixAddr{Name: path, Net: "unixgram"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = vm.Close() })
		require.NoError(t, vm.SetDeadline(time.Now().Add(2*patience)))
		_, err = vm.Write(ethernet(77))
		require.NoError(t, err)
	})
	buf := make([]byte, 100)
	n, err := vm.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, ethernet(77), buf[:n])

	r.upgrade(t, false, func(list []perclient.Detached) { require.False(t, list[0].Link.Waits) })
	_, err = vm.Write(ethernet(60))
	require.NoError(t, err)
	n, err = vm.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, ethernet(60), buf[:n])
}

// TestUpgradeOfRequests: connections that have not said anything, have begun their request, or wait for their interface, are told to
// ask again, and a socket that was to be adopted is as it was.
func TestUpgradeOfRequests(t *testing.T) {
	const silent = 70
	for _, sameProcess := range []bool{false, true} {
		t.Run(fmt.Sprint("same process ", sameProcess), func(t *testing.T) {
			var started chan struct{}
			r := newRig(t, func(r *rig) {
				elsewhere(r)
				r.request = 2 * patience
				started = starting(r)
			})
			waits := r.ask(t, "attach", `{"transport":"stream"}`+"\n")
			kept, ours := pair(t, proto.Stream)
			adopts := r.dial(t, "adopt")
			hand(t, adopts, `{"transport":"stream"}`+"\n", ours)
			<-started
			<-started
			partial := r.ask(t, "attach", `{"version":`)
			var quiet []*net.UnixConn
			for range silent {
				quiet = append(quiet, r.dial(t, "attach"))
			}
			r.until(t, func() bool { return r.open == silent+3 })
			r.upgrade(t, sameProcess, func(list []perclient.Detached) {
				assert.Empty(t, list)
				r.net.start = nil
			})
			for _, c := range append(quiet, waits, partial, adopts) {
				assert.Contains(t, refused(t, c, proto.Stopping), "ask again")
				atEnd(t, c)
			}
			adopts = r.dial(t, "adopt")
			hand(t, adopts, `{"transport":"stream"}`+"\n", ours)
			_, reply := readReply(t, adopts)
			require.Nil(t, reply.Error)
			exchange(t, kept, proto.Stream)
		})
	}
}

// TestAdoptAtTheLastMoment: a descriptor that comes without a request while the server is detached is served by the next image.
func TestAdoptAtTheLastMoment(t *testing.T) {
	r := newRig(t, func(r *rig) { elsewhere(r); r.last = patience })
	kept, ours := pair(t, proto.Datagram)
	c := r.dial(t, "adopt")
	r.until(t, func() bool { return r.open == 1 })
	defer context.AfterFunc(r.ctx, func() { hand(t, c, "\x00", ours) })()
	r.upgrade(t, false, func(list []perclient.Detached) { assert.Len(t, list, 1) })
	exchange(t, kept, proto.Datagram)
}

// TestStopWhileDetached: a server can be stopped then, and attached.
func TestStopWhileDetached(t *testing.T) {
	r := newRig(t, func(r *rig) { elsewhere(r); r.opts.Log = slog.New(slog.DiscardHandler) })
	silent := r.dial(t, "attach")
	r.until(t, func() bool { return r.open == 1 })
	r.Detach()
	refused(t, silent, proto.Stopping)
	r.Stop()
	r.Attach()
	refused(t, r.dial(t, "attach"), proto.Stopping)
}
