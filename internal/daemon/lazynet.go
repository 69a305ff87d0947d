// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// A lazyNetwork is a network that is still starting, and then is that network. A daemon that was given its listeners and clients
// before its network uses it: the clients are there, and their ports wait.
//
//	starting --open returned a network--> started --Close--> closed
//	starting --open failed, or Close--> failed, closed
type lazyNetwork struct {
	kept    *state.File     // what it keeps over restarts
	started chan struct{}   // closed when inner and err are set
	inner   network.Network // nil if err is set
	err     error
	cancel  context.CancelFunc // ends the start
}

var _ network.Network = (*lazyNetwork)(nil)

// startLazy calls open in a goroutine and returns at once. The context that open gets ends with ctx and with Close, while open runs;
// what it returns is closed by Close, and then kept.
func startLazy(ctx context.Context, kept *state.File, open func(context.Context) (network.Network, error)) *lazyNetwork {
	ctx, cancel := context.WithCancel(ctx)
	n := &lazyNetwork{kept: kept, started: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(n.started)
		n.inner, n.err = open(ctx)
	}()
	return n
}

// Wait waits until the network has started. The error is why it has not, or ctx's.
func (n *lazyNetwork) Wait(ctx context.Context) error {
	select {
	case <-n.started:
		return n.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// result is the network that was started, or why it was not; neither while it starts.
func (n *lazyNetwork) result() (network.Network, error) {
	select {
	case <-n.started:
		return n.inner, n.err
	default:
		return nil, nil
	}
}

// opened is the network that was started, nil while there is none.
func (n *lazyNetwork) opened() network.Network {
	inner, _ := n.result()
	return inner
}

// Attach waits for the network, then attaches a port to it. While it waits, ctx ends it. When the network could not be started
// its error wraps network.ErrClosed and tells why.
func (n *lazyNetwork) Attach(ctx context.Context, o network.PortOptions, toClient frame.Sink) (network.Port, error) {
	if err := n.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it did not start: %w", network.ErrClosed, err)
	}
	return n.inner.Attach(ctx, o, toClient)
}

// Info describes the network once it has started; before it is zero. What has a port can ask.
func (n *lazyNetwork) Info() network.Info {
	if inner := n.opened(); inner != nil {
		return inner.Info()
	}
	return network.Info{}
}

// Close ends the start, waits for its end, closes the network that came of it, and writes what it keeps. It is idempotent.
func (n *lazyNetwork) Close() (err error) {
	n.cancel()
	if <-n.started; n.inner != nil {
		err = n.inner.Close()
	}
	return errors.Join(err, n.kept.Close()) // what changed last is written
}
