// SPDX-License-Identifier: Apache-2.0

// Package daemon is the daemon: one network on one socket, from the start to the stop, through upgrades in place.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/upgrade"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// stopLimit is how long a stop may take. Clients have 1.8 s of it; whatever hangs beyond is left to the end of the process.
const stopLimit = 1900 * time.Millisecond

// stopSignals end the daemon in order, with exit code 0, as they end socket_vmnet.
var stopSignals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// errSignal is the cause of a context that a signal ended.
type errSignal struct{ os.Signal }

func (e errSignal) Error() string { return "received signal " + e.String() }

// A daemon is one network on one socket. Its fields are filled in the order of the start and undone in reverse.
type daemon struct {
	cfg   *compat.Config
	owner compat.Owner
	log   *slog.Logger
	logs  *compat.Log // what log writes to
	open  opener
	began time.Time // of the daemon; an upgrade does not change it
	path  string    // of the program, as it was started

	guards    *guards           // nil without --anti-spoof
	given     *inherit.Sockets  // by the service manager
	manager   *inherit.Notifier // nil without one
	pidfile   *compat.Pidfile   // nil without --pidfile
	lock      *compat.SocketLock
	ln        *net.UnixListener
	server    *perclient.Server
	health    *health.Monitor  // as server
	extras    *extras          // nil when they are not to be had
	control   *controller      // nil when it is not to be had, as captures
	metrics   *control.HTTP    // without a socket if there is no --metrics-listen
	metricsLn *net.TCPListener // its socket; nil without
	captures  *capture.Hub
	failed    chan error // why the daemon cannot go on; of one

	// changing is held while an upgrade or the stop changes what follows.
	changing sync.Mutex
	kept     *state.File                 // of the network, over restarts
	network  atomic.Pointer[lazyNetwork] // it may start while clients are served already
	accept   accepting
	then     func(context.Context) // what run does once the network has started

	// What describe needs besides.
	upgrades  int                    // in place, since the start; set before clients are served
	stateFile atomic.Pointer[string] // its path
	users     userNames
	processes processNames
}

// Serve runs the daemon until a signal stops it. An error means it could not start; nothing is left behind then.
func Serve(cfg *compat.Config, log *compat.Log) error {
	ctx, stop := UntilSignal(log.Logger)
	defer stop()
	in, err := handover.Inherited()
	if err != nil {
		return err
	}
	d := newDaemon(cfg, log)
	if d.path, err = upgrade.StartPath(os.Args[0]); err != nil {
		log.Debug("the daemon cannot be upgraded in place", "error", err)
	}
	return d.serve(ctx, func() error {
		if in != nil {
			return d.takeOver(ctx, in)
		}
		return d.start(ctx)
	})
}

// Try is Serve until ctx of UntilSignal is done, without upgrades. When clients can connect, ready is told the network and whether
// there are datagram clients' sockets; its error ends the daemon.
func Try(ctx context.Context, cfg *compat.Config, log *compat.Log, ready func(n network.Info, datagrams bool) error) error {
	d := newDaemon(cfg, log)
	return d.serve(ctx, func() error {
		if err := d.start(ctx); err != nil {
			return err
		}
		return ready(d.networkInfo(), d.extras != nil)
	})
}

func newDaemon(cfg *compat.Config, log *compat.Log) *daemon {
	none := control.NewHTTP(nil, 0, log.Logger)
	return &daemon{cfg: cfg, log: log.Logger, logs: log, began: time.Now(), metrics: none, failed: make(chan error, 1)}
}

// serve begins, and runs until ctx is done. A signal in the middle of the start is no error.
func (d *daemon) serve(ctx context.Context, begin func() error) error {
	err := begin()
	if err == nil {
		err = d.run(ctx)
	}
	d.stop()
	if errors.As(context.Cause(ctx), new(errSignal)) {
		return nil
	}
	return err
}

// UntilSignal returns a context that the first stop signal ends. Further ones change nothing.
func UntilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals...)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			log.Info("received signal", "signal", compat.SignalText(s))
			cancel(errSignal{s})
		case <-done:
		}
	})
	return ctx, func() {
		close(done)
		wg.Wait()
		cancel(nil)
	}
}

// run serves clients until ctx is done, and then those that are still waiting to be accepted. An error means that the start,
// which was not over, has failed, or that the network did not start again.
func (d *daemon) run(ctx context.Context) error {
	context.AfterFunc(ctx, func() {
		d.lock.RemoveIfOurs()
		d.extras.hide()
		d.server.Stop()
		d.manager.Stopping()
	})
	d.extras.run(d.server.Held())
	d.changing.Lock() // an upgrade may be asked for from here on
	d.control.do(func(s *control.Server) { s.Run(ctx) })
	d.metrics.Run(ctx)
	if d.given.Has(inherit.Stream) && d.then == nil {
		d.then = func(context.Context) { d.fail(d.ready()) }
	}
	d.acceptAll(ctx, d.then)
	d.changing.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

// fail ends the daemon if err is one. Only the first counts.
func (d *daemon) fail(err error) {
	if err == nil {
		return
	}
	select {
	case d.failed <- err:
	default:
	}
}

// stop undoes start, however far it came, in order: nobody new, clients, network, pidfile, lock.
func (d *daemon) stop() {
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	d.changing.Lock() // an upgrade that is under way ends before its next step
	defer d.changing.Unlock()
	if d.lock != nil {
		d.lock.RemoveIfOurs()
	}
	d.extras.hide()
	d.health.Close()
	d.accept.stop(nil)
	if d.ln != nil {
		_ = d.ln.Close()
	}
	// The clients are only drained now, so the network may end beside them.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.closeNetwork()
	}()
	if d.server != nil {
		d.server.Stop()
		d.server.Wait(limit)
	}
	d.extras.close(limit)
	d.control.do(func(s *control.Server) { s.Close(limit) })
	d.metrics.Close()
	d.given.Close()
	select {
	case <-closed:
	case <-limit.Done():
		d.log.Warn("the network did not stop in time")
	}
	if d.pidfile != nil {
		d.pidfile.Release()
	}
	if d.lock != nil {
		d.lock.Unlock()
	}
}

// closeNetwork closes the network and writes what it keeps.
func (d *daemon) closeNetwork() {
	var err error
	if n := d.network.Load(); n != nil {
		err = n.Close()
	}
	if d.kept != nil { // what changed last is written
		err = errors.Join(err, d.kept.Close())
	}
	if err != nil {
		d.log.Warn("closing the network failed", "error", err)
	}
}
