// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// reaches has from say payload until to hears it: the port of either may be starting.
func reaches(t *testing.T, from, to net.Conn, src byte, payload string) {
	t.Helper()
	head := make([]byte, frame.PrefixLen)
	for range 1000 {
		say(t, from, src, payload)
		for {
			require.NoError(t, to.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			if n, _ := to.Read(head[:1]); n == 0 {
				break
			}
			require.NoError(t, to.SetReadDeadline(time.Now().Add(20*time.Second)))
			_, err := io.ReadFull(to, head[1:])
			require.NoError(t, err)
			f := make([]byte, binary.BigEndian.Uint32(head))
			_, err = io.ReadFull(to, f)
			require.NoError(t, err)
			if string(f[frame.MinLen:]) == payload {
				drainInput(to)
				return
			}
		}
	}
	require.Fail(t, "frames do not arrive")
}

// drainInput reads what else is there.
func drainInput(c net.Conn) {
	b := make([]byte, 1<<16)
	for {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := c.Read(b); n == 0 || err != nil {
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			return
		}
	}
}

// all are the ports there have been.
func (n *fakeNetwork) all() []*port {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ports)
}

func (p *port) Close() error {
	p.closed.Store(true)
	return p.Port.Close()
}

// linkOf makes links of clients on stream sockets.
func linkOf(v *Detached) (link.Link, error) { return link.AttachStream(link.StreamOptions{}, v.Link) }

// detach is Detach of a server all of whose sessions come to rest.
func detach(t *testing.T, s *Server) []Detached {
	t.Helper()
	list, err := s.Detach(within(t), func() {}, func() {}, func(Detached) { assert.Fail(t, "a session is late") })
	require.NoError(t, err)
	return list
}

// TestDetachAndAttach: the network may be closed meanwhile, once no port of it is left.
func TestDetachAndAttach(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	for round := range 5 {
		list, err := r.Detach(within(t), func() {
			all := r.net.all()
			assert.False(t, all[len(all)-1].closed.Load(), "no port is closed yet")
		}, func() {
			for _, p := range r.net.all() {
				assert.True(t, p.closed.Load(), "a port is open")
			}
		}, nil)
		require.NoError(t, err)
		assert.Zero(t, r.Clients())
		meanwhile := fmt.Sprint("while no client is read ", round)
		say(t, a, 1, meanwhile)
		require.Empty(t, r.Attach(list, linkOf))
		hears(t, b, meanwhile) // a is read once b is there as well; of what was said before, something may be left
		reaches(t, a, b, 1, "after")
		reaches(t, b, a, 2, "and back")
	}
	assert.Equal(t, 2, r.Clients())
}

// TestAddressesGoOver: what is known behind a client's port is known behind the next one before a frame comes from there.
func TestAddressesGoOver(t *testing.T) {
	r := newRig(t, Options{})
	a, b, c := r.dial(t), r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "a's address")
	reaches(t, b, a, 2, "b's address")
	reaches(t, c, a, 3, "c is there")
	list := detach(t, r.Server)
	require.Empty(t, r.Attach(list, linkOf))
	<-r.Held()
	drainInput(c)
	_, err := a.Write(wireTo(2, 1, "for b alone"))
	require.NoError(t, err)
	hears(t, b, "for b alone")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is not flooded")
}

// wireTo is a frame from guest src to guest dst in wire form.
func wireTo(dst, src byte, payload string) []byte {
	f := append([]byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5}, payload...)
	return frame.Append(nil, f)
}

// TestDetachEndsAStart: a port that is starting, or is to be started later, holds nothing up.
func TestDetachEndsAStart(t *testing.T) {
	for name, prepare := range map[string]func(*fakeNetwork){
		"slow":    func(n *fakeNetwork) { n.set(0, time.Hour) },
		"failing": func(n *fakeNetwork) { n.set(1<<30, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			prepare(r.net)
			a, b := r.dial(t), r.dial(t)
			say(t, a, 1, "first")
			eventually(t, func() bool { return r.net.attempts() > 0 })
			list := detach(t, r.Server)
			r.net.set(0, 0)
			require.Empty(t, r.Attach(list, linkOf))
			drainInput(b)
			reaches(t, a, b, 1, "after")
		})
	}
}

// TestHoldGoesOn: attached clients are held as long as ports go on starting.
func TestHoldGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come, began := make(chan struct{}), time.Now()
		hold, open := context.WithCancel(t.Context())
		go release(hold, open, 2, come)
		time.Sleep(holdTime - 1)
		come <- struct{}{}
		<-hold.Done()
		assert.Equal(t, 2*holdTime-1, time.Since(began))
	})
}

// TestNoneNewWhileDetached: a client that comes then is told to come again.
func TestNoneNewWhileDetached(t *testing.T) {
	r := newRig(t, Options{})
	list := detach(t, r.Server)
	_, err := r.Serve(newFakeLink(), Client{})
	assert.ErrorIs(t, err, ErrStopping)
	require.Empty(t, r.Attach(list, linkOf))
	l := newFakeLink()
	x, err := r.Serve(l, Client{})
	require.NoError(t, err)
	l.end(errors.New("over"))
	<-x.Done()
}

// TestDetachFlushes: a client that reads gets what is queued for it; one that does not is not waited for.
func TestDetachFlushes(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	big := string(make([]byte, 30_000))
	queued := func() (n int) {
		for _, c := range r.Sessions() {
			n += c.link.Stats().Queued
		}
		return n
	}
	for queued() < 3*len(big) { // the first one may be sent in part, and goes over
		say(t, a, 1, big)
	}
	began := time.Now()
	list := detach(t, r.Server)
	assert.GreaterOrEqual(t, time.Since(began), flushTime)
	assert.NotZero(t, list[0].Link.Stats.DropQueueFull+list[1].Link.Stats.DropQueueFull)
	require.Empty(t, r.Attach(list, linkOf))
}

// TestStopWhileDetached: clients that are attached after the stop are drained and end.
func TestStopWhileDetached(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	list := detach(t, r.Server)
	r.Stop()
	require.Empty(t, r.Attach(list, linkOf))
	r.Wait(within(t))
	assert.Zero(t, r.Clients())
}

// stubborn is a link whose Run goes on after Interrupt.
type stubborn struct {
	*fakeLink
	interrupted chan struct{}
}

func (l stubborn) Interrupt() { close(l.interrupted) }

// TestOneIsLate: the detach is refused, all others are attached again, and the late one when it has come to rest.
func TestOneIsLate(t *testing.T) {
	r := newRig(t, Options{})
	l := stubborn{newFakeLink(), make(chan struct{})}
	_, err := r.Serve(l, Client{Name: "stubborn"})
	require.NoError(t, err)
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	late := make(chan Detached, 1)
	list, err := r.Detach(ctx, nil, func() { assert.Fail(t, "the network is closed under a client") }, func(v Detached) { late <- v })
	require.ErrorContains(t, err, "client 1 (stubborn) and 0 other clients do not come to rest: context deadline exceeded")
	require.Len(t, list, 2)
	require.Empty(t, r.Attach(list, linkOf))
	drainInput(b)
	reaches(t, a, b, 1, "after")
	l.end(link.ErrDetached)
	v := <-late
	assert.EqualValues(t, 1, v.ID)
	again := newFakeLink()
	require.Empty(t, r.Attach([]Detached{v}, func(*Detached) (link.Link, error) { return again, nil }))
	assert.Equal(t, 3, r.Clients())
	again.end(errors.New("over"))
	eventually(t, func() bool { return r.Clients() == 2 })
}

// leaving is a link whose client has gone, which nothing has noticed yet but Gone: a datagram client's.
type leaving struct{ *fakeLink }

func (leaving) Gone() bool { return true }

// TestDetachEndsThoseThatHaveGone, also one that left before it had a port.
func TestDetachEndsThoseThatHaveGone(t *testing.T) {
	r := newRig(t, Options{})
	x, err := r.Serve(leaving{newFakeLink()}, Client{})
	require.NoError(t, err)
	assert.Empty(t, detach(t, r.Server))
	<-x.Done()
	assert.Zero(t, r.Clients())
	assert.Contains(t, r.log.String(), "connection closed by peer")
}

// TestAttachInAnotherServer hands clients from one server to another under load, many times, every other time as the next image does:
// none notices, none loses a frame that it sent.
func TestAttachInAnotherServer(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	reaches(t, b, a, 2, "before")
	log := slog.New(slog.NewTextHandler(r.log, nil))
	s, sent := r.Server, uint64(0)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // b sends what no client is there for
		for {
			select {
			case <-stop:
				return
			default:
				say(t, b, 2, "load")
				sent++
			}
		}
	})
	var last []Detached
	for round := range 30 {
		last = detach(t, s)
		require.Len(t, last, 2)
		if round%2 == 0 {
			last = overTheWire(t, last)
		}
		n := &fakeNetwork{Bridge: bridge.New(bridge.Options{})}
		t.Cleanup(func() { _ = n.Close() })
		s = NewServer(Options{Network: n, Log: log})
		require.Empty(t, s.Attach(last, linkOf))
	}
	reaches(t, a, b, 1, "after")
	close(stop)
	wg.Wait()
	eventually(t, func() bool {
		for _, x := range s.Sessions() {
			if x.id == 2 {
				return x.link.Stats().ToNetFrames >= sent
			}
		}
		return false
	})
	for _, w := range last {
		assert.Contains(t, []uint64{1, 2}, w.ID)
		assert.Equal(t, byte(w.ID), w.Watch.MAC[5])
		assert.Equal(t, w.Watch.MAC.String(), w.Client.Identity)
	}
	l := newFakeLink()
	x, err := s.Serve(l, Client{})
	require.NoError(t, err)
	assert.EqualValues(t, 3, x.id, "numbers go on")
	l.end(errors.New("over"))
	s.Stop()
	s.Wait(within(t))
}

// overTheWire is list as the next image gets it: with descriptors in place of connections, which are closed.
func overTheWire(t *testing.T, list []Detached) (out []Detached) {
	t.Helper()
	text, err := json.Marshal(list)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	for i := range out {
		for _, d := range []struct{ was, is *link.Descriptor }{
			{&list[i].Link.Socket, &out[i].Link.Socket},
			{&list[i].Client.Lifeline, &out[i].Client.Lifeline},
			{&list[i].Client.Theirs, &out[i].Client.Theirs},
		} {
			if d.was.IsNone() {
				continue
			}
			d.is.FD, err = unix.FcntlInt(uintptr(d.was.FD), unix.F_DUPFD_CLOEXEC, 0)
			require.NoError(t, err)
			d.was.Close()
		}
	}
	return out
}

func TestAttachRefusesDamage(t *testing.T) {
	s := NewServer(Options{Network: &fakeNetwork{Bridge: bridge.New(bridge.Options{})}, Log: slog.New(slog.DiscardHandler)})
	for name, held := range map[string][]byte{
		"half a frame": {0, 0, 0, 20, 1, 2, 3},
		"a runt":       {0, 0, 0, 1, 9},
		"too long":     {0xff, 0, 0, 0},
	} {
		lost := s.Attach([]Detached{{ID: 7, Held: held}}, nil)
		assert.ErrorContains(t, lost[7], "held bytes are not whole frames", name)
	}
	assert.Zero(t, s.Clients())
}

// TestHeldFramesGoOver, those of a client whose port does not start, as far as they are few.
func TestHeldFramesGoOver(t *testing.T) {
	r := newRig(t, Options{})
	r.net.set(1<<30, 0)
	a, b := r.dial(t), r.dial(t)
	eventually(t, func() bool { return len(r.Sessions()) == 2 })
	for range 100 {
		say(t, a, 1, string(make([]byte, 1000)))
	}
	eventually(t, func() bool {
		for _, x := range r.Sessions() {
			if x.link.Stats().ToNetFrames == 100 {
				return true
			}
		}
		return false
	})
	list := detach(t, r.Server)
	i := slices.IndexFunc(list, func(v Detached) bool { return v.ID == 1 })
	n, err := frames(list[i].Held)
	require.NoError(t, err)
	assert.Equal(t, maxHeldSaved/1018, n)
	assert.EqualValues(t, 100-n, list[i].DropHeld)
	r.net.set(0, 0)
	require.Empty(t, r.Attach(list, linkOf))
	hears(t, b, string(make([]byte, 1000)))
}

// TestLifeline: its end ends the session, in this server and in the next one; what comes by it is thrown away; and the client's end
// of the pair is kept until it was used, or for a while.
func TestLifeline(t *testing.T) {
	for _, over := range []bool{false, true} {
		t.Run(fmt.Sprint("attached again ", over), func(t *testing.T) {
			r := newRig(t, Options{})
			line, theirEnd := unixPair(t, unix.SOCK_STREAM)
			daemon, client := unixPair(t, unix.SOCK_STREAM)
			kept, other := unixPair(t, unix.SOCK_STREAM)
			l, err := link.NewStream(daemon, link.StreamOptions{})
			require.NoError(t, err)
			x, err := r.Serve(l, Client{Transport: status.PassedStream, Via: "attach", Lifeline: link.Holding(line), Theirs: link.Holding(kept), Start: true})
			require.NoError(t, err)
			_, err = x.Ready(within(t))
			require.NoError(t, err)
			_, err = theirEnd.Write(make([]byte, 3*lifelineLen))
			require.NoError(t, err)
			x.Told()
			x.check()
			assert.False(t, x.client.Theirs.IsNone(), "the client may not have it yet")
			if over {
				list := overTheWire(t, detach(t, r.Server))
				require.Len(t, list, 1)
				assert.NotZero(t, list[0].LetGo)
				require.Empty(t, r.Attach(list, linkOf))
				x = r.Sessions()[0]
			}
			_, err = client.Write(wireTo(9, 1, "it has it"))
			require.NoError(t, err)
			eventually(t, func() bool { return x.link.Stats().ToNetFrames == 1 })
			x.check()
			_, err = other.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF, "it is closed")
			require.NoError(t, theirEnd.Close())
			eventually(t, func() bool { return r.Clients() == 0 })
			r.shutdown()
			assert.Contains(t, r.log.String(), errLifeline.Error())
		})
	}
}

// TestLifelineThatCannotBeUsed is closed once: a second time would close what has the number by then.
func TestLifelineThatCannotBeUsed(t *testing.T) {
	r := newRig(t, Options{})
	daemon, _ := unixPair(t, unix.SOCK_STREAM)
	l, err := link.NewStream(daemon, link.StreamOptions{})
	require.NoError(t, err)
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	c := newSession(r.Server, 1, l, Client{Lifeline: link.Descriptor{FD: fd}}, nil, nil)
	assert.Nil(t, c.openLifeline())
	assert.True(t, c.client.Lifeline.IsNone())
	c.close()
}

// unixPair is a connected pair of sockets of a kind.
func unixPair(t *testing.T, kind int) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	require.NoError(t, err)
	a, err = link.Descriptor{FD: fds[0]}.Conn()
	require.NoError(t, err)
	b, err = link.Descriptor{FD: fds[1]}.Conn()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	require.NoError(t, b.SetReadDeadline(time.Now().Add(20*time.Second)))
	return a, b
}
