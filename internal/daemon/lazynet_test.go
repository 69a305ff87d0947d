// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// stuck is a network that fails to close.
type stuck struct{ network.Network }

var errStuck = errors.New("stuck")

func (stuck) Close() error { return errStuck }

// TestFailedStart: a start that fails is told to those that wait and attach.
func TestFailedStart(t *testing.T) {
	want := errors.New("no such luck")
	n := startLazy(t.Context(), state.Open(state.Options{}), func(context.Context) (network.Network, error) { return nil, want })
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
	n := startLazy(t.Context(), state.Open(state.Options{}), func(ctx context.Context) (network.Network, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
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
	gate := make(chan struct{})
	n := startLazy(t.Context(), state.Open(state.Options{}), func(context.Context) (network.Network, error) {
		<-gate
		return stuck{}, nil
	})
	done := make(chan error)
	go func() { done <- n.Close() }()
	close(gate)
	require.ErrorIs(t, <-done, errStuck)
}
