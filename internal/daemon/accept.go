// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// errHandover ends the loops of a daemon whose listeners go to its next image.
var errHandover = errors.New("the listeners go to the next image")

// accepting are the daemon's goroutines that end with a pause: those that accept, and the one that waits for the network.
type accepting struct {
	cancel  context.CancelCauseFunc // nil before they have begun
	running sync.WaitGroup
}

// acceptAll begins to accept at every listener, until ctx is done or the loops are stopped. At a listener that was given, who
// waits at the end is left to the next process, which the service manager starts. Once the network has started, then is called
// unless it is nil; without a network the daemon ends.
func (d *daemon) acceptAll(ctx context.Context, then func(context.Context)) {
	ctx, d.accept.cancel = context.WithCancelCause(ctx)
	n := d.network.Load()
	d.accept.running.Go(func() {
		switch err := n.Wait(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			d.fail(err)
		default:
			d.goOn()
			if then != nil {
				then(ctx)
			}
		}
	})
	loop := func(name string, ln *net.UnixListener, handle func(*net.UnixConn)) {
		d.accept.running.Go(func() {
			link.Accept(ctx, ln, handle, d.log)
			if d.given.Has(name) || errors.Is(context.Cause(ctx), errHandover) {
				d.log.Debug("a connection that waits is left to the next process")
				return
			}
			link.AcceptWaiting(ln, handle)
		})
	}
	loop(inherit.Stream, d.ln, d.server.Handle)
	d.extras.accept(loop)
}

// stop ends the loops and waits for them. With errHandover the connections that wait are left to the next ones.
func (a *accepting) stop(cause error) {
	if a.cancel != nil {
		a.cancel(cause)
	}
	a.running.Wait()
}
