// SPDX-License-Identifier: Apache-2.0

// Package daemon is the daemon: one network on one socket, from the start to the stop, through upgrades in place.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
)

// stopLimit is how long a stop may take. Clients have 1.8 s of it; whatever hangs beyond is left to the end of the process.
const stopLimit = 1900 * time.Millisecond

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

	guards    *guards       // nil without --anti-spoof
	given     inherit.Given // by the service manager
	manager   inherit.Notifier
	pidfile   *compat.Pidfile         // nil without --pidfile
	lock      *compat.SocketLock      // of SOCKET
	listeners map[string]listener     // by the names of package inherit, and ours
	server    *perclient.Server       // of all clients
	health    *health.Monitor         // as server
	extras    *extras                 // nil when there are none
	refused   *dgram.Refusals         // by them
	web       []*control.HTTP         // at the control sockets and at that of --metrics-listen
	captures  *capture.Hub            // nil without control sockets
	fail      context.CancelCauseFunc // ends run, as the daemon cannot go on
	call      *net.UnixConn           // of the program that asked the image before for the upgrade
	upgrading sync.Mutex              // held while an upgrade is not answered

	// changing is held while an upgrade or the stop changes what follows.
	changing   sync.Mutex
	network    atomic.Pointer[lazyNetwork] // it may start while clients are served already
	stopAccept context.CancelCauseFunc     // ends accepting, with errHandover if the connections that wait are for the next ones
	accepting  sync.WaitGroup              // the goroutines of serve

	// What describe needs besides.
	upgrades int // in place, since the start; set before clients are served
	users    userNames
}

// Serve runs the daemon until a signal stops it. An error means it could not start; nothing is left behind then. ready, unless it is nil,
// is called once the daemon has started, but not after an upgrade in place.
func Serve(cfg *compat.Config, log *compat.Log, ready func()) error {
	ctx, stop := UntilSignal(log.Logger)
	defer stop()
	in, err := handover.Inherited()
	switch {
	case errors.Is(err, handover.ErrNotNeeded):
		return nil
	case err != nil:
		return err
	}
	d := newDaemon(cfg, log)
	if d.path, err = handover.StartPath(os.Args[0]); err != nil {
		log.Debug("the daemon cannot be upgraded in place", "error", err)
	}
	if in == nil {
		v := &detached{}
		return d.run(ctx, d.start(ctx, v), v, func(ctx context.Context, sessions []*perclient.Session) error {
			err := d.ready(ctx, sessions)
			if err == nil && ready != nil {
				ready()
			}
			return err
		})
	}
	m := &manifest{}
	return d.run(ctx, d.takeOver(ctx, in, m), &m.detached, func(ctx context.Context, sessions []*perclient.Session) error {
		d.answer(ctx, m, sessions)
		return nil
	})
}

// Try is Serve until ctx of UntilSignal is done, without upgrades. When clients can connect, ready is told the network and whether
// there are datagram clients' sockets; its error ends the daemon.
func Try(ctx context.Context, cfg *compat.Config, log *compat.Log, ready func(n network.Info, datagrams bool) error) error {
	d, v := newDaemon(cfg, log), &detached{}
	err := d.start(ctx, v)
	if err == nil {
		err = ready(d.networkInfo(), d.extras != nil)
	}
	return d.run(ctx, err, v, d.ready)
}

func newDaemon(cfg *compat.Config, log *compat.Log) *daemon {
	return &daemon{
		cfg: cfg, log: log.Logger, logs: log, began: time.Now(), listeners: map[string]listener{},
		stopAccept: func(error) {}, users: userNames{lookUp: lookUpUser}, refused: dgram.NewRefusals(log.Logger),
	}
}

// UntilSignal returns a context that the first stop signal ends, with exit code 0, as it ends socket_vmnet. Further ones change nothing.
func UntilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := handover.Signals()
	go func() {
		select {
		case s := <-signals:
			log.Info("received signal", "signal", compat.SignalText(s))
			cancel(errSignal{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// run serves, as serve does, until ctx is done, and then the clients that are still waiting to be accepted. err is why the start has
// failed, nil if it has not. The error that it returns is that, or why the network did not start or did not start again; a signal in the
// middle of the start is none.
func (d *daemon) run(ctx context.Context, err error, v *detached, then func(context.Context, []*perclient.Session) error) error {
	if err == nil {
		serving, fail := context.WithCancelCause(ctx)
		d.fail = fail
		context.AfterFunc(serving, func() {
			d.leave()
			d.manager.Stopping()
		})
		d.changing.Lock() // an upgrade may be asked for from here on
		d.serve(serving, v, then)
		d.changing.Unlock()
		if keeper := d.given.Keeper; keeper != 0 {
			go func() {
				for os.Getppid() == keeper {
					time.Sleep(keeperPause)
				}
				fail(errors.New("the process that --keeper had made has gone"))
			}()
		}
		<-serving.Done()
		if ctx.Err() == nil {
			err = context.Cause(serving)
		}
		defer fail(nil)
	}
	d.stop()
	if errors.As(context.Cause(ctx), new(errSignal)) {
		return nil
	}
	return err
}

// stop undoes the start, however far it came, in order: no new client, clients, network, pidfile, lock.
func (d *daemon) stop() {
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	d.changing.Lock() // an upgrade that is under way ends before its next step
	defer d.changing.Unlock()
	d.leave()
	d.stopAccepting(nil)
	d.health.Close()
	for _, ln := range d.listeners {
		_ = ln.Close()
	}
	// The clients are only drained now, so the network may end beside them.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.closeNetwork()
	}()
	if d.server != nil {
		d.server.Wait(limit)
	}
	d.extras.close(limit)
	d.detachWeb()
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

// leave hides the daemon from further clients, and has those that there are begin to go.
func (d *daemon) leave() {
	if d.lock != nil {
		d.lock.RemoveIfOurs()
	}
	d.extras.hide()
	if d.server != nil {
		d.server.Stop()
	}
}

// detachWeb has requests end in order, and accepts no further one.
func (d *daemon) detachWeb() {
	for _, w := range d.web {
		w.Detach()
	}
}

// stopAccepting ends the goroutines of serve.
func (d *daemon) stopAccepting(cause error) {
	d.stopAccept(cause)
	d.accepting.Wait()
}

// closeNetwork closes the network and writes what it keeps.
func (d *daemon) closeNetwork() {
	n := d.network.Load()
	if n == nil {
		return
	}
	if err := n.Close(); err != nil {
		d.log.Warn("closing the network failed", "error", err)
	}
}
