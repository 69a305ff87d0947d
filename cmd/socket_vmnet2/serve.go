// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/lazynet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
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
	open  opener

	guards  *guards           // nil without --anti-spoof
	given   *inherit.Sockets  // by the service manager
	manager *inherit.Notifier // nil without one
	pidfile *compat.Pidfile   // nil without --pidfile
	lock    *compat.SocketLock
	kept    *state.File // of the network, over restarts
	network vnet.Network
	lazy    *lazynet.Network // the network, if it starts while clients are served already
	ln      *net.UnixListener
	server  *perclient.Server
	extras  *extras // nil when they are not to be had
	control *controller
}

// serve runs the daemon until a signal stops it. An error means it could not start; nothing is left behind then.
func serve(cfg *compat.Config, log *slog.Logger) error {
	ctx, stop := untilSignal(log)
	defer stop()
	for _, w := range append(cfg.Warnings, compat.PrivilegeWarnings(runtime.GOOS, cfg.Backend, os.Geteuid(), os.Getuid())...) {
		log.Warn(w)
	}
	owner, err := cfg.Owner()
	if err != nil {
		return err
	}
	d := &daemon{cfg: cfg, owner: owner, log: log}
	if d.open, err = prepareNetwork(cfg, log); err != nil {
		return err
	}
	d.guards, d.open = guardClients(cfg, d.open, log)
	if err = d.takeGiven(); err == nil {
		err = d.start(ctx)
	}
	if err == nil {
		err = d.run(ctx)
	}
	d.stop()
	if errors.As(context.Cause(ctx), new(errSignal)) {
		return nil // stopped in the middle of the start
	}
	return err
}

// untilSignal returns a context that the first stop signal ends. Further ones change nothing.
func untilSignal(log *slog.Logger) (context.Context, func()) {
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

// start brings the daemon up. The pidfile comes last: who sees it may connect. Where SOCKET was given, clients are served while
// the network starts, and run does the rest.
func (d *daemon) start(ctx context.Context) (err error) {
	if d.cfg.PidfileSet {
		if d.pidfile, err = compat.AcquirePidfile(d.cfg.Pidfile, d.log); err != nil {
			return err
		}
	}
	if d.given.Has(inherit.Stream) {
		err = d.startGiven(ctx)
	} else {
		err = d.startOwn(ctx)
	}
	if err != nil {
		return err
	}
	d.server = perclient.NewServer(perclient.Options{
		Network:    d.network,
		MaxClients: d.cfg.MaxClients,
		QueueSize:  d.cfg.QueueSize,
		Log:        d.log,
		Guard:      d.guards.guard(),
	})
	if d.extras, err = openExtras(d.cfg, d.owner, d.network, d.kept, d.given, d.server, d.log); err != nil {
		return err
	}
	d.control = openControl(d.extras, d.given, controlOptions(d.cfg, time.Now(), d.log, nil))
	if d.lazy != nil {
		return nil
	}
	return d.ready()
}

// startOwn starts the network and then makes the socket.
func (d *daemon) startOwn(ctx context.Context) (err error) {
	if d.lock, err = compat.LockSocket(ctx, d.cfg.SocketPath, d.log); err != nil {
		return err
	}
	d.kept = openState(d.cfg, d.log)
	if d.network, err = d.open(ctx, d.kept); err != nil {
		return err
	}
	d.ln, err = d.lock.Bind(d.owner)
	return err
}

// ready tells everybody that the daemon serves.
func (d *daemon) ready() error {
	if d.pidfile != nil {
		if err := d.pidfile.Publish(os.Getpid()); err != nil {
			return err
		}
	}
	d.tellReady()
	return nil
}

// run serves clients until ctx is done, and then those that are still waiting to be accepted. An error means that the start,
// which was not over, has failed.
func (d *daemon) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() {
		d.lock.RemoveIfOurs()
		d.extras.hide()
		d.server.Stop()
		d.manager.Stopping()
	})
	d.extras.run(ctx)
	d.control.run(ctx)
	var starting sync.WaitGroup
	if d.lazy != nil {
		starting.Go(func() {
			if err = d.endOfStart(ctx); err != nil {
				cancel()
			}
		})
	}
	acceptOn(d.given, inherit.Stream)(ctx, d.ln, d.server.Handle, d.log)
	starting.Wait()
	return err
}

// stop undoes start, however far it came, in order: nobody new, clients, network, pidfile, lock.
func (d *daemon) stop() {
	limit, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if d.lock != nil {
		d.lock.RemoveIfOurs()
	}
	d.extras.hide()
	if d.ln != nil {
		_ = d.ln.Close()
	}
	// The clients are only drained now, so the network may end beside them.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var err error
		if d.network != nil {
			err = d.network.Close()
		}
		if d.kept != nil { // what changed last is written
			err = errors.Join(err, d.kept.Close())
		}
		if err != nil {
			d.log.Warn("closing the network failed", "error", err)
		}
	}()
	if d.server != nil {
		d.server.Stop()
		d.server.Wait(limit)
	}
	d.extras.close(limit)
	d.control.close(limit)
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
