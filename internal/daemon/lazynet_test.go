// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// fakeNetwork is a network that counts.
type fakeNetwork struct {
	attached, closed atomic.Int32
	closeErr         error
}

type lazyPort struct{ network.Port }

func (f *fakeNetwork) Attach(context.Context, network.PortOptions, frame.Sink) (network.Port, error) {
	f.attached.Add(1)
	return lazyPort{}, nil
}
func (f *fakeNetwork) Info() network.Info { return network.Info{Backend: "fake"} }
func (f *fakeNetwork) Close() error       { f.closed.Add(1); return f.closeErr }

// gated starts inner, or fails with err, when gate is closed or its context ends.
func gated(gate <-chan struct{}, inner network.Network, err error) func(context.Context) (network.Network, error) {
	return func(ctx context.Context) (network.Network, error) {
		select {
		case <-gate:
			return inner, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestAttachWaits(t *testing.T) {
	gate, inner := make(chan struct{}), &fakeNetwork{}
	n := startLazy(t.Context(), state.Open(state.Options{}), gated(gate, inner, nil))
	assert.Nil(t, n.opened())
	assert.Zero(t, n.Info())
	_, err := n.result()
	require.NoError(t, err)
	got := make(chan error)
	go func() {
		_, err := n.Attach(t.Context(), network.PortOptions{}, nil)
		got <- err
	}()
	select {
	case err := <-got:
		require.Fail(t, "attached to nothing", "%v", err)
	case <-n.started:
		require.Fail(t, "started by itself")
	case <-time.After(20 * time.Millisecond):
	}
	close(gate)
	require.NoError(t, <-got)
	require.NoError(t, n.Wait(t.Context()))
	assert.Equal(t, int32(1), inner.attached.Load())
	assert.Equal(t, "fake", n.Info().Backend)
	assert.Same(t, inner, n.opened())
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	assert.Positive(t, inner.closed.Load())
}

// TestFailedStart: a start that fails is told to those that wait and attach.
func TestFailedStart(t *testing.T) {
	gate, want := make(chan struct{}), errors.New("no such luck")
	close(gate)
	n := startLazy(t.Context(), state.Open(state.Options{}), gated(gate, nil, want))
	require.ErrorIs(t, n.Wait(t.Context()), want)
	_, err := n.result()
	require.ErrorIs(t, err, want)
	_, err = n.Attach(t.Context(), network.PortOptions{}, nil)
	require.ErrorIs(t, err, network.ErrClosed)
	require.ErrorIs(t, err, want)
	require.NoError(t, n.Close())
}

// TestCloseWhileStarting: what waits for a start can give up, and is told of its end.
func TestCloseWhileStarting(t *testing.T) {
	n := startLazy(t.Context(), state.Open(state.Options{}), gated(nil, nil, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Attach(ctx, network.PortOptions{}, nil)
	require.ErrorIs(t, err, context.Canceled)
	got := make(chan error)
	go func() {
		_, err := n.Attach(t.Context(), network.PortOptions{}, nil)
		got <- err
	}()
	require.NoError(t, n.Close())
	require.ErrorIs(t, <-got, network.ErrClosed)
	_, err = n.result()
	require.ErrorIs(t, err, context.Canceled)
}

// TestCloseTooLate: a network that has started although it is not wanted any more is closed.
func TestCloseTooLate(t *testing.T) {
	gate, inner := make(chan struct{}), &fakeNetwork{closeErr: errors.New("stuck")}
	n := startLazy(t.Context(), state.Open(state.Options{}), func(context.Context) (network.Network, error) {
		<-gate
		return inner, nil
	})
	done := make(chan error)
	go func() { done <- n.Close() }()
	close(gate)
	require.ErrorIs(t, <-done, inner.closeErr)
}
