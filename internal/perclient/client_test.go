// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// fakeLink is a link that does nothing but end.
type fakeLink struct {
	over chan error
}

func newFakeLink() *fakeLink { return &fakeLink{over: make(chan error, 1)} }

func (l *fakeLink) Deliver(frame.Batch)         {}
func (l *fakeLink) MaxFrame() int               { return frame.MaxStreamLen }
func (l *fakeLink) Run(link.Handler) error      { return <-l.over }
func (l *fakeLink) Drain()                      {}
func (l *fakeLink) Close() error                { return nil }
func (l *fakeLink) Gone() bool                  { return false }
func (l *fakeLink) Stats() link.Stats           { return link.Stats{} }
func (l *fakeLink) Fd() int                     { return -1 }
func (l *fakeLink) Full() bool                  { return false }
func (l *fakeLink) Hold(frame.Bounded)          {}
func (l *fakeLink) Shutdown(link.DrainSchedule) { l.end(link.ErrShutdown) }
func (l *fakeLink) Interrupt()                  { l.end(link.ErrDetached) }
func (l *fakeLink) Detach() link.State          { return link.State{} }

func (l *fakeLink) end(err error) {
	select {
	case l.over <- err:
	default:
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestServe: a client that a caller waits for has its port at once, is told of, and ends with the reason that is given.
func TestServe(t *testing.T) {
	r := newRig(t, Options{})
	began := time.Now()
	x, err := r.Serve(newFakeLink(), Client{
		Name: "vm", Transport: status.PassedDatagram, Via: "attach", Peer: hostfs.Peer{Known: true, UID: 501}, Start: true,
	})
	require.NoError(t, err)
	_, err = x.Ready(within(t))
	require.NoError(t, err)
	if since := time.Since(began); since > startDelay {
		t.Logf("the port came after %v: a slow machine, or not at once", since)
	}
	assert.Equal(t, 1, r.Clients())
	x.End(errors.New("its owner has left"))
	<-x.Done()
	assert.Zero(t, r.Clients())
	assert.Equal(t, []string{"name vm"}, r.net.identities())
	for _, want := range []string{"serving a client", "name=vm", "via=attach", "transport=dgram", "peer_uid=501", `reason="its owner has left"`} {
		assert.Contains(t, r.log.String(), want)
	}
	assert.NotContains(t, r.log.String(), "accepted a connection", "that is what socket_vmnet says of its socket")
	assert.NotContains(t, r.log.String(), "WARN")
}

// TestReady: what the first start came to is told, also when there was none.
func TestReady(t *testing.T) {
	r := newRig(t, Options{})
	r.net.set(1, 0)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	x, err := r.Serve(newFakeLink(), Client{Name: "vm", MAC: mac, Start: true})
	require.NoError(t, err)
	_, err = x.Ready(within(t))
	require.ErrorContains(t, err, "too many interfaces")
	eventually(t, func() bool { return r.net.attempts() > 1 })
	x.End(errors.New("enough"))
	<-x.Done()
	assert.Equal(t, mac.String(), r.net.identities()[0], "the address comes before the name")

	r.net.set(0, time.Hour)
	x, err = r.Serve(newFakeLink(), Client{Start: true})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = x.Ready(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	x.End(errors.New("enough"))
	_, err = x.Ready(within(t))
	require.ErrorIs(t, err, ErrGone)
	<-x.Done()
}

// TestServeRefuses: a client too many, and one that comes during the stop, stay the caller's.
func TestServeRefuses(t *testing.T) {
	r := newRig(t, Options{MaxClients: 1})
	l := newFakeLink()
	x, err := r.Serve(l, Client{})
	require.NoError(t, err)
	_, err = r.Serve(newFakeLink(), Client{})
	require.ErrorIs(t, err, ErrFull)
	l.end(io.EOF)
	<-x.Done()
	assert.Contains(t, r.log.String(), "client refused")
	r.Stop()
	_, err = r.Serve(newFakeLink(), Client{})
	require.ErrorIs(t, err, ErrStopping)
}

// TestIdentityOfFormerSession: a client that comes back at once finds its identity free as soon as its former session has
// ended; one whose twin stays is told.
func TestIdentityOfFormerSession(t *testing.T) {
	r := newRig(t, Options{})
	r.net.inUse(3)
	x, err := r.Serve(newFakeLink(), Client{InterfaceID: [16]byte{1}, Start: true})
	require.NoError(t, err)
	_, err = x.Ready(within(t))
	require.NoError(t, err)
	r.net.inUse(idTries + 1)
	y, err := r.Serve(newFakeLink(), Client{InterfaceID: [16]byte{1}, Start: true})
	require.NoError(t, err)
	_, err = y.Ready(within(t))
	require.ErrorIs(t, err, network.ErrIDInUse)
	for _, s := range []*Session{x, y} {
		s.End(errors.New("enough"))
		<-s.Done()
	}
}

func TestMemoryIsGivenBackAfterManyClientsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int64
		s := NewServer(Options{})
		s.free = func() { freed.Add(1) }
		leave := func(n int) {
			for range n {
				s.remove(&Session{}, Info{})
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		leave(freeAfter - 1)
		pass(time.Minute)
		assert.Zero(t, freed.Load(), "a few are not worth a garbage collection")
		leave(1)
		pass(freeDelay - 1)
		assert.Zero(t, freed.Load())
		pass(1)
		assert.EqualValues(t, 1, freed.Load())
		leave(freeAfter)
		s.Stop()
		pass(time.Minute)
		assert.EqualValues(t, 1, freed.Load(), "that ends with the process")
	})
}
