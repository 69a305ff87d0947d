// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// TestForwardIsNotAnswered: a handler that never comes does not hold the start up for ever.
func TestForwardIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onForward = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		o := onNetwork()
		o.API, o.UseAPI = f, apiInterface
		o.Forwards = []network.Forward{{Proto: "tcp", HostPort: 1, Guest: netip.MustParseAddrPort("192.168.64.9:1")}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := New(ctx, o)
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(began), time.Minute)
	})
}

// hungCreate is a framework whose vmnet_network_create does not return.
type hungCreate struct {
	*fake
	out chan struct{}
}

func (h hungCreate) NewNetwork(c api.NetworkConfig) (api.Network, error) {
	<-h.out
	return h.fake.NewNetwork(c)
}

// TestCreateHangs: New returns when its context ends, also in the middle of vmnet_network_create.
func TestCreateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hungCreate{newFake(), make(chan struct{})}
		o := onNetwork()
		o.API = h
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { _, err := New(ctx, o); done <- err }()
		select {
		case err := <-done:
			assert.Error(t, err)
		case <-time.After(time.Minute):
			t.Error("New still waits a minute later")
		}
		close(h.out)
		synctest.Wait()
		assert.Equal(t, len(h.created), h.released, "a network that comes too late is released")
	})
}

// TestAnchorReadHangsAndClientsChange: a read of the anchor that hangs is never joined by another one, and the anchor is not
// stopped under it.
func TestAnchorReadHangsAndClientsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.Interfaces = interfacesOne }))
		a := r.attach(1)
		anchor := r.anchorOf()
		in, out := make(chan struct{}), make(chan struct{})
		var hung atomic.Bool
		anchor.fault(func(i *fakeInterface) {
			i.onRead = func() api.Status {
				if hung.CompareAndSwap(false, true) {
					close(in)
					<-out
				}
				return api.Success
			}
		})
		anchor.put(a.to(broadcast, "x"))
		<-in
		require.NoError(t, a.Close()) // the last one: no port listens any more
		b := r.attach(2)
		b.say(b.to(broadcast, "y"))
		assert.Eventually(t, func() bool { return r.Status().Starts == 2 }, patience, time.Millisecond, "another anchor takes over")
		_ = b.Close()
		require.NoError(t, r.Close())
		assert.Empty(t, r.fake.rules())
		close(out)
		r.until("all stop", func() bool { return len(r.fake.running()) == 0 })
		assert.Empty(t, r.fake.rules())
	})
}

// TestAnchorHangsWhileJoining: Attach ends with its context, and Status answers, though the anchor's first read hangs.
func TestAnchorHangsWhileJoining(t *testing.T) {
	r := newRig(t, newFake(), with(onNetwork(), func(o *Options) { o.Interfaces = interfacesOne }))
	in, out := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.anchorOf().fault(func(i *fakeInterface) {
		i.onRead = func() api.Status { once.Do(func() { close(in) }); <-out; return api.Success }
	})
	ctx, cancel := context.WithCancel(context.Background())
	back := make(chan struct{})
	go func() { _, _ = r.tryAttach(ctx, 1); close(back) }()
	<-in
	r.Status()
	cancel()
	select {
	case <-back:
	case <-time.After(patience):
		t.Error("Attach has not returned")
	}
	close(out)
	<-back
}

// TestReservationsOutliveTheAnchor: macOS forgets reservations and forwards of a network object as soon as no interface is
// on it, so a new anchor needs a new object then.
func TestReservationsOutliveTheAnchor(t *testing.T) {
	f := newFake()
	o := onNetwork()
	o.Reservations = []network.Reservation{{MAC: guestMAC(1), Addr: netip.MustParseAddr("192.168.64.9")}}
	r := newRig(t, f, o)
	r.shared.anchor.Load().die(api.InvalidAccess)
	r.until("a new anchor", func() bool { return r.Status().Starts == 2 })
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Len(t, f.created, 2)
}
