// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// exchange sends a frame on f and reads it back.
func exchange(t *testing.T, f *os.File, transport proto.Transport) {
	t.Helper()
	for _, n := range []int{14, 60, 1514} {
		want := ethernet(n)
		if transport == proto.Stream {
			want = append(binary.BigEndian.AppendUint32(nil, uint32(n)), want...)
		}
		_, err := f.Write(want)
		require.NoError(t, err)
		got := make([]byte, len(want))
		_, err = io.ReadFull(f, got)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestAttach(t *testing.T) {
	for _, transport := range []proto.Transport{proto.Datagram, proto.Stream} {
		t.Run(string(transport), func(t *testing.T) {
			r := newRig(t, nil)
			id, err := proto.ParseUUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
			require.NoError(t, err)
			a := r.attach(t, proto.Request{Transport: transport, Name: "web", MAC: testMAC, InterfaceID: id})
			assert.Equal(t, proto.Reply{
				Version: 1, Transport: transport, Backend: "usernet", Mode: "shared", Gateway: "192.168.105.1",
				MACAddress: "52:54:00:12:34:56", MTU: 1500, MaxPacketSize: 1514, SubnetMask: "255.255.255.0",
				StartAddress: "192.168.105.1", EndAddress: "192.168.105.254", InterfaceID: testInfo.InterfaceID,
			}, a.Reply)
			exchange(t, a.File, transport)

			i := r.only(t)
			assert.Equal(t, "web", i.Name)
			assert.Equal(t, uint32(os.Geteuid()), i.Peer.UID)
			require.NoError(t, a.Lifeline.Close())
			r.gone(t, lifelineEnded)
			assert.Contains(t, r.log.String(), "via=attach transport="+string(transport))
			if runtime.GOOS != "darwin" {
				assert.Contains(t, r.log.String(), fmt.Sprint("peer_pid=", os.Getpid()))
			}
		})
	}
}

// TestSessionEndIsSeen: the client notices at its lifeline, whatever its transport.
func TestSessionEndIsSeen(t *testing.T) {
	r := newRig(t, nil)
	a := r.attach(t, proto.Request{Transport: proto.Datagram})
	_, err := r.opts.Clients.Kick(r.only(t).ID, errors.New("for a test"))
	require.NoError(t, err)
	atEnd(t, a.Lifeline)
	_, err = a.File.Write(ethernet(60))
	assert.Error(t, err, "nothing is there")
}

func TestAttachTakesNoDescriptor(t *testing.T) {
	r := newRig(t, nil)
	for n, text := range map[int]string{1: "adopt", 2: "more than one", 200: "more than one"} {
		c := r.dial(t, "attach")
		fds := make([]int, n) // stdin, again and again
		_, _, err := c.WriteMsgUnix([]byte("{}\n"), unix.UnixRights(fds...), nil)
		require.NoError(t, err)
		assert.Contains(t, refused(t, c, proto.BadDescriptor), text)
		_ = c.Close()
	}
	assert.Zero(t, r.opts.Clients.Clients())
}

// TestHalfSent: a client that does not finish its request is told, on either socket.
func TestHalfSent(t *testing.T) {
	r := newRig(t, func(r *rig) { r.request = 20 * time.Millisecond })
	for _, name := range []string{"attach", "adopt"} {
		c := r.ask(t, name, `{"version":1,`)
		assert.Contains(t, refused(t, c, proto.BadRequest), "too slow")
		atEnd(t, c)
	}
}

// TestProbe: a health check that connects and closes is no news.
func TestProbe(t *testing.T) {
	r := newRig(t, nil)
	for range 5 {
		require.NoError(t, r.dial(t, "attach").Close())
		require.NoError(t, r.dial(t, "adopt").Close())
	}
	r.until(t, func() bool { return r.open == 0 })
	assert.Empty(t, r.log.String())
	assert.Zero(t, r.opts.Clients.Clients())
}

// TestNotServed: the client is told why, and its session ends.
func TestNotServed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*perclient.Server)
		start  error
		code   proto.Code
		says   string
	}{
		{"id in use", nil, fmt.Errorf("start a port: %w", network.ErrIDInUse), proto.IDInUse, ""},
		{"no network", nil, errors.New("VMNET_SHARING_SERVICE_BUSY"), proto.NoNetwork, "VMNET_SHARING_SERVICE_BUSY"},
		{"network closed", nil, fmt.Errorf("start a port: %w", network.ErrClosed), proto.Stopping, ""},
		{"interface too slow", nil, context.DeadlineExceeded, proto.NoNetwork, "30ms"},
		{"stopping", (*perclient.Server).Stop, nil, proto.Stopping, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				elsewhere(r)
				r.ready = 30 * time.Millisecond
				if errors.Is(c.start, network.ErrIDInUse) {
					r.ready = patience // it is tried again for a while
				}
				r.net.start = func(ctx context.Context) error {
					if errors.Is(c.start, context.DeadlineExceeded) {
						<-ctx.Done()
					}
					return c.start
				}
				if c.change != nil {
					c.change(r.opts.Clients)
				}
			})
			_, handed := pair(t, proto.Datagram)
			if c.code == proto.Stopping { // the package's client would ask again
				refused(t, r.ask(t, "attach", "{}\n"), c.code)
				conn := r.dial(t, "adopt")
				hand(t, conn, "{}\n", handed)
				refused(t, conn, c.code)
			} else {
				_, err := proto.Attach(t.Context(), r.dir, proto.Request{})
				assert.Equal(t, c.code, codeOf(t, err), "%v", err)
				assert.ErrorContains(t, err, c.says)
				_, err = proto.Adopt(t.Context(), r.dir, handed, &proto.Request{})
				assert.Equal(t, c.code, codeOf(t, err), "%v", err)
			}
			r.gone(t, "client refused")
		})
	}
}

// starting has no port start before the test's end, and tells when one is to.
func starting(r *rig) (started chan struct{}) {
	started = make(chan struct{}, 10)
	r.net.start = func(ctx context.Context) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	return started
}

// TestClientLeavesEarly: the start is not waited for any more.
func TestClientLeavesEarly(t *testing.T) {
	var started chan struct{}
	r := newRig(t, func(r *rig) { started = starting(r) })
	c := r.ask(t, "attach", "{}\n")
	<-started
	require.NoError(t, c.Close())
	r.gone(t, lifelineEnded)
	assert.NotContains(t, r.log.String(), "refused")
}

func TestStop(t *testing.T) {
	var started chan struct{}
	r := newRig(t, func(r *rig) { started = starting(r) })
	silent, starting := r.dial(t, "adopt"), r.dial(t, "attach")
	_, err := io.WriteString(starting, "{}\n")
	require.NoError(t, err)
	<-started
	r.until(t, func() bool { return r.users[uint32(os.Getuid())] == 2 })
	r.Stop()
	late := r.ask(t, "attach", "{}\n")
	refused(t, starting, proto.Stopping)
	refused(t, silent, proto.Stopping)
	refused(t, late, proto.Stopping)
}

// TestStopLeavesLifelines: they end with their sessions, which drain first.
func TestStopLeavesLifelines(t *testing.T) {
	r := newRig(t, nil)
	a := r.attach(t, proto.Request{})
	r.Stop()
	exchange(t, a.File, proto.Datagram)
	r.opts.Clients.Stop()
	atEnd(t, a.Lifeline)
}

// TestTooManyConnections are turned away at once, with an answer.
func TestTooManyConnections(t *testing.T) {
	r := newRig(t, func(r *rig) { r.open = maxOpen })
	c := r.ask(t, "attach", "{}\n")
	refused(t, c, proto.Full)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "too many") }, patience, time.Millisecond)
	r.mu.Lock()
	r.open = 0
	r.mu.Unlock()
}

// TestBytesOnTheLifeline are nothing to us, nor are descriptors, even an end of the very connection.
func TestBytesOnTheLifeline(t *testing.T) {
	r := newRig(t, nil)
	a := r.attach(t, proto.Request{})
	before := openFiles(t)
	own, err := unix.Dup(int(a.Lifeline.Fd())) // Conn closes what it is given, and the number may be another one's at once
	require.NoError(t, err)
	ll, err := link.Descriptor{FD: own}.Conn()
	require.NoError(t, err)
	require.NoError(t, ll.SetDeadline(time.Now().Add(patience)))
	for range 5 {
		_, err := ll.Write(make([]byte, 3000))
		require.NoError(t, err)
		_, _, err = ll.WriteMsgUnix([]byte("x"), unix.UnixRights(0, 0, 0), nil)
		require.NoError(t, err)
	}
	rc, err := ll.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, rc.Control(func(fd uintptr) { err = proto.WriteMessage(ll, []byte("x"), int(fd)) }))
	require.NoError(t, err)
	exchange(t, a.File, proto.Datagram)
	require.NoError(t, ll.Close())
	require.NoError(t, a.Lifeline.Close())
	r.gone(t, lifelineEnded)
	require.NoError(t, a.File.Close())
	assert.Eventually(t, func() bool { return openFiles(t) < before }, patience, time.Millisecond)
}

// TestPanicEndsOneConnection: the others are served.
func TestPanicEndsOneConnection(t *testing.T) {
	var first atomic.Bool
	r := newRig(t, func(r *rig) {
		r.opts.Network = func() network.Info {
			if first.CompareAndSwap(false, true) {
				panic("for a test")
			}
			return testNet
		}
	})
	c := r.ask(t, "attach", "{}\n")
	atEnd(t, c)
	r.gone(t, "internal error")
	r.attach(t, proto.Request{})
	r.panics = true
}

func TestReplyOfVmnet(t *testing.T) {
	n := testNet
	n.Backend, n.Mode, n.Interface, n.Isolated, n.Offload = "vmnet", network.ModeBridged, "en0", true, true
	n.Subnet, n.Gateway, n.DHCPEnd = network.Info{}.Subnet, network.Info{}.Gateway, network.Info{}.DHCPEnd
	s := NewServer(Options{Network: func() network.Info { return n }})
	ours, theirs, err := proto.Pair(proto.Stream)
	require.NoError(t, err)
	defer unix.Close(theirs)
	c := perclient.Client{Via: viaAttach, Transport: status.PassedStream}
	l, err := s.Link(&perclient.Detached{Client: c, Link: link.State{Socket: link.Descriptor{FD: ours}}})
	require.NoError(t, err)
	defer l.Close()
	assert.Equal(t, proto.Reply{
		Version: 1, Transport: proto.Stream, Backend: "vmnet", Mode: "bridged", Interface: "en0", Isolated: true, Offload: true,
		MTU: 1500, MaxPacketSize: 32768, ReadMaxPackets: 256, WriteMaxPackets: 256,
	}, s.reply(proto.Stream, l, network.PortInfo{MTU: 1500, MaxFrame: 65550}))
}

// TestUsersHaveRoom: one user's connections do not take the last place.
func TestUsersHaveRoom(t *testing.T) {
	r := newRig(t, nil)
	connect := func(uid uint32) *proto.Error {
		ours, theirs, err := proto.Pair(proto.Stream)
		require.NoError(t, err)
		uc, err := link.Descriptor{FD: ours}.Conn()
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(theirs) })
		no := r.admit(&conn{UnixConn: uc, srv: r.Server, via: viaAttach, peer: hostfs.Peer{Known: true, UID: uid}})
		if no != nil {
			_ = uc.Close()
		}
		return no
	}
	for range maxOpenUser {
		require.Empty(t, connect(7))
	}
	assert.Equal(t, proto.Full, connect(7).Code)
	require.Empty(t, connect(8))
	r.Stop() // ends all requests
}
