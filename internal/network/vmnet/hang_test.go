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

// TestStartHangs: New returns when its context ends or a call takes too long, whatever hangs, and what comes later is let go.
func TestStartHangs(t *testing.T) {
	waits := func(ctx context.Context) error { <-ctx.Done(); return api.ErrNoAnswer }
	for name, hang := range map[string]func(f *fake, o *Options, out chan struct{}){
		"the making of a network": func(f *fake, _ *Options, out chan struct{}) {
			f.onCreate = func(api.NetworkConfig) error { <-out; return nil }
		},
		"a start": func(f *fake, _ *Options, _ chan struct{}) {
			f.onStart = func(ctx context.Context, _ bool) error { return waits(ctx) }
		},
		"a forward": func(f *fake, o *Options, _ chan struct{}) {
			f.onForward, o.UseAPI, o.Forwards = waits, apiInterface, someForward()
		},
	} {
		for _, limit := range []time.Duration{time.Second, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				f, o, out := newFake(), onNetwork(), make(chan struct{})
				o.API = f
				hang(f, &o, out)
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				began := time.Now()
				_, err := New(ctx, o)
				require.Error(t, err, name)
				assert.LessOrEqual(t, time.Since(began), min(limit, time.Minute), name)
				close(out)
				synctest.Wait()
				assert.Empty(t, f.running(), name)
				assert.Equal(t, len(f.created), f.released, name)
			})
		}
	}
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
