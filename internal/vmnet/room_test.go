// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRoomOfALeaver: room that was offered to a client that leaves while it tries goes to another one.
func TestRoomOfALeaver(t *testing.T) {
	f := newFake()
	f.limit = 2
	r := newRig(t, f, onNetwork())
	defer r.end()
	owner, oldest, other := r.attach(1), r.attach(2), r.attach(3)
	defer other.Close()
	trying := make(chan struct{})
	var tries atomic.Int32
	f.setStart(func(ctx context.Context, _ bool) error {
		if tries.Add(1) > 1 {
			return nil
		}
		close(trying)
		<-ctx.Done()
		return ctx.Err()
	})
	require.NoError(t, owner.Close())
	<-trying
	require.NoError(t, oldest.Close())
	r.until("its own interface", func() bool { return len(f.running()) == 2 })
}

// TestRoomOfAStartTooLate: an interface that comes when its client has left keeps others out until it is stopped, and then
// its room goes to one of them.
func TestRoomOfAStartTooLate(t *testing.T) {
	f := newFake()
	f.limit = 2
	r := newRig(t, f, onNetwork())
	defer r.end()
	owner, oldest, other := r.attach(1), r.attach(2), r.attach(3)
	defer other.Close()
	trying, late, next, hold := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var tries atomic.Int32
	f.setStart(func(ctx context.Context, _ bool) error {
		switch tries.Add(1) {
		case 1:
			close(trying)
			select {
			case <-late:
			case <-ctx.Done():
				t.Error("the call ends with its client: nobody learns when its interface is stopped")
			}
		case 2:
			<-next
		}
		return nil
	})
	f.born = func(i *fakeInterface) {
		i.onStop = func(context.Context) error { <-hold; return nil }
		f.born = nil
	}
	require.NoError(t, owner.Close())
	<-trying
	require.NoError(t, oldest.Close())
	close(late)
	r.until("the late one", func() bool { return len(f.running()) == 2 })
	refused := r.Status().StartFailures
	close(next)
	r.until("no room for the other one", func() bool { return r.Status().StartFailures > refused })
	close(hold)
	r.until("its own interface", func() bool { return r.Status().Own == 1 })
}

// TestRoomAfterARefusal: room that comes up after a start was refused, and before its client shares the anchor, is not
// forgotten.
func TestRoomAfterARefusal(t *testing.T) {
	f := newFake()
	r := newRig(t, f, onNetwork())
	defer r.end()
	owner := r.attach(1)
	var refused atomic.Bool
	f.setStart(func(context.Context, bool) error {
		if refused.Swap(true) {
			return nil
		}
		_ = owner.Close()
		for len(f.running()) > 1 || r.ownCount.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond) // the room is offered, to nobody
		return errors.New("there was none")
	})
	g := r.attach(2)
	defer g.Close()
	r.until("its own interface", func() bool { return len(f.running()) == 2 })
}
