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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
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
func (n *network) all() []*port {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ports)
}

func (p *port) Close() error {
	p.closed.Store(true)
	return p.Port.Close()
}

func TestPauseAndResume(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	for round := range 5 {
		require.NoError(t, r.Pause(within(t)))
		meanwhile := fmt.Sprint("while nobody reads ", round)
		say(t, a, 1, meanwhile)
		for _, p := range r.net.all() {
			assert.True(t, p.closed.Load(), "a port is open")
		}
		r.Resume()
		hears(t, b, meanwhile) // a sends once b is there as well; of what was said before, something may be left
		reaches(t, a, b, 1, "after")
		reaches(t, b, a, 2, "and back")
	}
	assert.Equal(t, 2, r.Clients())
}

// TestResumeOnAnotherNetwork: the first one is closed meanwhile.
func TestResumeOnAnotherNetwork(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	require.NoError(t, r.Pause(within(t)))
	require.NoError(t, r.net.Close())
	n := &network{Bridge: bridge.New(bridge.Options{})}
	t.Cleanup(func() { _ = n.Close() })
	r.Use(n)
	r.Resume()
	drainInput(b)
	reaches(t, a, b, 1, "after")
}

// TestPauseEndsAStart: a port that is starting, or is to be started later, holds nothing up.
func TestPauseEndsAStart(t *testing.T) {
	for name, prepare := range map[string]func(*network){
		"slow":    func(n *network) { n.set(0, time.Hour) },
		"failing": func(n *network) { n.set(1<<30, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			prepare(r.net)
			a, b := r.dial(t), r.dial(t)
			say(t, a, 1, "first")
			eventually(t, func() bool { return r.net.attempts() > 0 })
			require.NoError(t, r.Pause(within(t)))
			r.net.set(0, 0)
			r.Resume()
			drainInput(b)
			reaches(t, a, b, 1, "after")
		})
	}
}

// TestNobodyNewWhilePaused: whoever asks is told to come again.
func TestNobodyNewWhilePaused(t *testing.T) {
	r := newRig(t, Options{})
	require.NoError(t, r.Pause(within(t)))
	_, err := r.Serve(newFakeLink(), Client{})
	assert.ErrorIs(t, err, ErrStopping)
	r.Resume()
	l := newFakeLink()
	x, err := r.Serve(l, Client{})
	require.NoError(t, err)
	l.end(errors.New("over"))
	<-x.Done()
}

// TestFlush waits for a client that reads, and not for one that does not.
func TestFlush(t *testing.T) {
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
	for queued() == 0 {
		say(t, a, 1, big)
	}
	require.NoError(t, r.Pause(within(t)))
	began := time.Now()
	r.Flush(30 * time.Millisecond)
	assert.NotZero(t, queued())
	assert.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
	require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Minute)))
	go drainUntilClosed(b)
	r.Flush(20 * time.Second)
	assert.Zero(t, queued())
	r.Resume()
}

// TestStopWhilePaused: the stop of the daemon is no longer than else.
func TestStopWhilePaused(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	require.NoError(t, r.Pause(within(t)))
	r.Stop()
	r.Resume()
	r.Wait(within(t))
	assert.Zero(t, r.Clients())
}

// stubborn is a link that never stands still.
type stubborn struct{ *fakeLink }

func (stubborn) Pause()           {}
func (stubborn) Resume()          {}
func (stubborn) Save() link.Saved { return link.Saved{} }

func TestPauseGivesUp(t *testing.T) {
	r := newRig(t, Options{})
	l := stubborn{newFakeLink()}
	x, err := r.Serve(l, Client{})
	require.NoError(t, err)
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, r.Pause(ctx), "client 1 does not stand still")
	r.Resume()
	drainInput(b)
	reaches(t, a, b, 1, "after")
	l.end(errors.New("over"))
	<-x.Done()
}

// leaving is a link whose client has gone, which nobody has noticed yet but Gone: a datagram client's.
type leaving struct {
	*fakeLink
	asked chan struct{} // closed when Gone was called
	once  sync.Once
}

func (l *leaving) Gone() bool       { l.once.Do(func() { close(l.asked) }); return true }
func (l *leaving) Pause()           { l.end(link.ErrPaused) }
func (l *leaving) Resume()          {}
func (l *leaving) Save() link.Saved { return link.Saved{} }

// TestPauseWithoutKeeper: a client that left before it had a port keeps nobody from being paused.
func TestPauseWithoutKeeper(t *testing.T) {
	r := newRig(t, Options{})
	l := &leaving{fakeLink: newFakeLink(), asked: make(chan struct{})}
	x, err := r.Serve(l, Client{})
	require.NoError(t, err)
	<-l.asked
	for range 3 {
		require.NoError(t, r.Pause(within(t)))
		r.Resume()
	}
	l.end(errors.New("over"))
	<-x.Done()
}

// TestRestore hands clients from one server to another under load, many times: none notices, none loses a frame that it sent.
func TestRestore(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.dial(t), r.dial(t)
	reaches(t, a, b, 1, "before")
	reaches(t, b, a, 2, "before")
	log := slog.New(slog.NewTextHandler(&lockedWriter{w: r.log}, nil))
	s, sent := r.Server, uint64(0)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // b sends to itself, as it were: to nobody
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
	var last []Saved
	for range 30 {
		require.NoError(t, s.Pause(within(t)))
		n := &network{Bridge: bridge.New(bridge.Options{})}
		next := NewServer(Options{Network: n, Log: log})
		last = nil
		for _, x := range s.Sessions() {
			v, ok := x.Save()
			require.True(t, ok)
			text, err := json.Marshal(v)
			require.NoError(t, err)
			var w Saved
			require.NoError(t, json.Unmarshal(text, &w))
			last = append(last, w)
			conn := dup(t, w.Link.FD)
			l, err := link.RestoreStream(conn, link.StreamOptions{}, w.Link)
			require.NoError(t, err)
			_, err = next.Restore(l, Client{}, w)
			require.NoError(t, err)
		}
		require.Len(t, last, 2)
		next.Restored()
		s.abandon()
		s = next
		t.Cleanup(func() { _ = n.Close() })
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

// abandon ends s without a word to its clients, as an exec does.
func (s *Server) abandon() {
	for _, x := range s.Sessions() {
		st := x.link.(*link.Stream)
		_ = st.Close()
		st.Resume()
		x.pause.resume(x.ctx, func() {})
	}
	s.Wait(context.Background())
}

// dup is the connection that fd is.
func dup(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(n), "client")
	c, err := net.FileConn(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return c.(*net.UnixConn)
}

func TestRestoreRefusesDamage(t *testing.T) {
	s := NewServer(Options{Network: &network{Bridge: bridge.New(bridge.Options{})}, Log: slog.New(slog.DiscardHandler)})
	for name, held := range map[string][]byte{
		"half a frame": {0, 0, 0, 20, 1, 2, 3},
		"a runt":       {0, 0, 0, 1, 9},
		"too long":     {0xff, 0, 0, 0},
	} {
		_, err := s.Restore(newFakeLink(), Client{}, Saved{ID: 7, Held: held})
		assert.ErrorContains(t, err, "client 7", name)
	}
}

// TestHeldFramesGoOver, those of a client whose port does not start, as far as they are few.
func TestHeldFramesGoOver(t *testing.T) {
	r := newRig(t, Options{})
	r.net.set(1<<30, 0)
	a := r.dial(t)
	for range 100 {
		say(t, a, 1, string(make([]byte, 1000)))
	}
	eventually(t, func() bool { return r.Sessions()[0].link.Stats().ToNetFrames == 100 })
	require.NoError(t, r.Pause(within(t)))
	v, ok := r.Sessions()[0].Save()
	require.True(t, ok)
	n, err := frames(v.Held)
	require.NoError(t, err)
	assert.Equal(t, maxHeldSaved/1018, n)
	assert.EqualValues(t, 100-n, v.DropHeld)
	r.Resume()
}
