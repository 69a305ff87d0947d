// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// TestCloseOrder: interfaces stop before the network object is released, and the anchor last.
func TestCloseOrder(t *testing.T) {
	f := newFake()
	r := newRig(t, f, onNetwork())
	for i := range byte(3) {
		r.attach(i)
	}
	anchor := r.anchorOf()
	anchor.fault(func(i *fakeInterface) {
		i.onStop = func(context.Context) error {
			assert.Len(t, f.running(), 1, "the anchor is the last")
			return nil
		}
	})
	r.end()
	assert.Equal(t, []string{"stop", "stop", "stop", "stop", "release"}, f.order)
	_, err := r.tryAttach(context.Background(), 9)
	assert.ErrorIs(t, err, network.ErrClosed)
	require.NoError(t, r.Close())
	assert.Len(t, f.order, 5, "once")
}

// TestGoneWhileStarting: Attach returns when its context or the network ends. Others attach meanwhile.
func TestGoneWhileStarting(t *testing.T) {
	for want, end := range map[error]func(r *rig, cancel func()){
		context.Canceled:  func(_ *rig, cancel func()) { cancel() },
		network.ErrClosed: func(r *rig, _ func()) { assert.NoError(t, r.Close()) },
	} {
		r := newRig(t, newFake(), onNetwork())
		in := make(chan struct{})
		var first atomic.Bool
		r.fake.setStart(func(ctx context.Context, _ bool) error {
			if !first.CompareAndSwap(false, true) {
				return nil
			}
			close(in)
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := r.tryAttach(ctx, 1)
			done <- err
		}()
		<-in
		a, b := r.attach(2), r.attach(3)
		r.talk(a, b)
		assert.Zero(t, r.Status().Shared)
		end(r, cancel)
		assert.ErrorIs(t, <-done, want)
		if want == context.Canceled { //nolint:errorlint // it is a key of the table
			assert.Zero(t, r.Status().Shared, "a client that has gone shares nothing")
			r.talk(r.attach(1), a)
			assert.Equal(t, 3, r.Status().Own)
		}
		cancel()
	}
}

// TestStopHangs: the port closes all the same, and so does the network.
func TestStopHangs(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newFake(), onNetwork())
			a, b, c := r.attach(1), r.attach(2), r.attach(3)
			out := make(chan struct{})
			hang := func(i *fakeInterface) {
				i.onStop = func(ctx context.Context) error {
					if heeds {
						<-ctx.Done()
						return ctx.Err()
					}
					<-out
					return nil
				}
			}
			for _, i := range r.fake.running() {
				i.fault(hang)
			}
			began := time.Now()
			require.NoError(t, a.Close())
			assert.LessOrEqual(t, time.Since(began), stopTimeout+100*time.Millisecond)
			r.talk(b, c)
			began = time.Now()
			require.NoError(t, r.Close())
			assert.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
			synctest.Wait()
			assert.NotZero(t, r.log.count("level=WARN", "client=\"guest 1\""))
			close(out)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			assert.Empty(t, r.fake.rules())
		})
	}
}

// TestCallHangs: a read or write that never comes back holds up its client alone, and the interface is not stopped
// under it.
func TestCallHangs(t *testing.T) {
	for _, what := range []string{"read", "write"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newFake(), onNetwork())
			a, b, c := r.attach(1), r.attach(2), r.attach(3)
			out := make(chan struct{})
			hung := r.own(a)
			hung.fault(func(i *fakeInterface) {
				if what == "read" {
					i.onRead = func() api.Status { <-out; return api.Success }
				} else {
					i.onWrite = func([][]byte) api.Status { <-out; return api.Success }
				}
			})
			if what == "read" {
				b.say(b.to(broadcast, "x"))
			} else {
				go a.say(a.to(broadcast, "x"))
			}
			synctest.Wait()
			r.talk(b, c)
			began := time.Now()
			require.NoError(t, a.Close())
			assert.LessOrEqual(t, time.Since(began), stopTimeout+100*time.Millisecond)
			a.hook = func(frame.Batch) { t.Error("delivered after Close") }
			r.talk(b, c)
			began = time.Now()
			require.NoError(t, r.Close())
			assert.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
			assert.Equal(t, []*fakeInterface{hung}, r.fake.running(), "all others have stopped")
			close(out)
			synctest.Wait()
			assert.Empty(t, r.fake.running())
			assert.Empty(t, r.fake.rules())
		})
	}
}

// TestPanickingFramework: a panic below a goroutine of ours costs that interface.
func TestPanickingFramework(t *testing.T) {
	r := newRig(t, newFake(), onNetwork())
	a, b := r.attach(1), r.attach(2)
	first := r.own(b)
	first.fault(func(i *fakeInterface) { i.onRead = func() api.Status { panic("oops") } })
	a.say(a.to(broadcast, "hello"))
	r.replaced(b, first)
	assert.Equal(t, 1, r.log.count("level=ERROR", "internal error", "oops"))
	r.talk(a, b)
	require.NoError(t, r.Close())
	assert.Empty(t, r.fake.running())
}

// TestCloseWhileRestarting: a port may be closed while its interface is being started again.
func TestCloseWhileRestarting(t *testing.T) {
	r := newRig(t, newFake(), onNetwork())
	a := r.attach(1)
	in := make(chan struct{})
	r.fake.setStart(func(ctx context.Context, _ bool) error {
		close(in)
		<-ctx.Done()
		return ctx.Err()
	})
	r.own(a).fault(func(i *fakeInterface) { i.onWrite = func([][]byte) api.Status { return api.InvalidAccess } })
	a.say(a.to(broadcast, "die"))
	<-in
	a.say(a.to(broadcast, "down"))
	assert.EqualValues(t, 2, a.Stats().Drops[network.DropDown])
	require.NoError(t, a.Close())
	a.say(a.to(broadcast, "closed"))
	assert.EqualValues(t, 1, a.Stats().Drops[network.DropClosed])
	r.fake.setStart(nil)
	r.talk(r.attach(1), r.attach(2))
}
