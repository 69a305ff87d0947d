// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/web"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// The names of the listeners that no service manager gives.
const (
	controlRoot   = inherit.Control + control.RootSuffix // for root and the daemon's user
	metricsSocket = "metrics"
)

// errHandover ends the loops of a daemon whose listeners go to its next image.
var errHandover = errors.New("the listeners go to the next image")

// prepare checks everything that can be checked before anything is touched.
func (d *daemon) prepare() (err error) {
	if d.owner, err = d.cfg.Owner(); err != nil {
		return err
	}
	if d.open, err = prepareNetwork(d.cfg, d.log); err != nil {
		return err
	}
	d.guards, d.open = guardClients(d.cfg, d.open)
	return nil
}

// start brings the daemon up for the first time; v gets the clients of a process that was killed.
func (d *daemon) start(ctx context.Context, v *detached) error {
	warnings := compat.PrivilegeWarnings(runtime.GOOS, d.cfg.Backend, os.Geteuid(), os.Getuid())
	for _, w := range append(d.cfg.Warnings, warnings...) {
		d.log.Warn(w)
	}
	if err := d.prepare(); err != nil {
		return err
	}
	if err := d.takeGiven(); err != nil {
		return err
	}
	v.Clients = d.takeStored()
	return d.bringUp(ctx, nil, &manifest{})
}

// takeGiven takes what a service manager gives: listening sockets, and where to report to.
func (d *daemon) takeGiven() (err error) {
	socket := absolute(d.cfg.SocketPath)
	d.given, err = inherit.Take(inherit.Options{Socket: socket, Dir: rundir.PathOf(socket, d.cfg.RuntimeDir), Log: d.log})
	if err == nil {
		err = handover.Given(&d.given)
	}
	d.manager = inherit.Notifier{Addr: d.given.Manager, Pair: d.given.Pair, Log: d.log}
	for name, ln := range d.given.Listeners {
		d.listeners[name] = ln
	}
	if err != nil || !d.given.Has(inherit.Stream) {
		return err
	}
	if d.cfg.SocketUser != "" || d.cfg.SocketGroupSet || d.cfg.SocketMode != compat.DefaultSocketMode {
		d.log.Warn("--socket-user, --socket-group and --socket-mode have no effect: the service manager has made the socket; say it there")
	}
	// Whom the socket lets in is for the manager to say, and the sockets beside it are for the same group.
	if info, err := os.Stat(socket); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			d.owner = compat.Owner{UID: -1, GID: int(st.Gid), Mode: info.Mode().Perm()}
		}
	}
	return nil
}

// bringUp takes over what the image before has handed over, in and m, and makes the rest; at the first start in is nil and m zero.
// Clients can connect to a socket that is there already while the network starts. One that is made is the last: a client that can
// connect to it finds the others as well.
func (d *daemon) bringUp(ctx context.Context, in *handover.In, m *manifest) (err error) {
	if err = d.openMetrics(); err != nil {
		return err
	}
	if err = d.takeLocks(ctx, in, m); err != nil {
		return err
	}
	d.startNetwork(ctx, opening{again: in != nil, gateway: d.takeGateway(in, m)})
	if in == nil && !d.given.Has(inherit.Stream) {
		if err = d.network.Load().Wait(ctx); err != nil {
			return err
		}
	}
	d.health = d.newHealth()
	o := perclient.Options{
		MaxClients: d.cfg.MaxClients, QueueSize: d.cfg.QueueSize, Log: d.log, Guard: d.guards.guard(), Observer: d.health,
	}
	if d.manager.Stores() {
		o.Store, o.Forget = d.store, func(id uint64) { d.manager.Forget(storedName(id)) }
	}
	d.server = perclient.NewServer(o)
	d.server.Recall(m.Server)
	if err = d.openExtras(in, m.Extras); err != nil {
		return err
	}
	d.given.Stored = nil // all of it has been taken
	d.openControl()
	return d.listen(inherit.Stream, func() (*net.UnixListener, error) { return d.lock.Bind(d.owner) })
}

// takeLocks has nothing else be this daemon: it locks the pidfile and the socket's path.
func (d *daemon) takeLocks(ctx context.Context, in *handover.In, m *manifest) (err error) {
	switch {
	case !d.cfg.PidfileSet:
	case m.Pidfile != nil:
		d.pidfile, err = compat.RestorePidfile(in, *m.Pidfile, d.log)
	default:
		d.pidfile, err = compat.AcquirePidfile(d.cfg.Pidfile, d.log)
	}
	switch {
	case err != nil:
	case in != nil:
		d.lock, err = compat.RestoreSocketLock(in, m.Lock, d.log)
	default:
		d.lock, err = compat.LockSocket(ctx, d.cfg.SocketPath, d.given.Has(inherit.Stream), d.log)
	}
	return err
}

// listen has there be a listener of this name: of the image before, given, or made by make.
func (d *daemon) listen(name string, make func() (*net.UnixListener, error)) error {
	if d.listeners[name] != nil {
		return nil
	}
	ln, err := make()
	if err == nil {
		d.listeners[name] = ln
	}
	return err
}

// unix is the listener of this name; nil if there is none.
func (d *daemon) unix(name string) *net.UnixListener {
	ln, _ := d.listeners[name].(*net.UnixListener)
	return ln
}

// startNetwork begins to start the network, with what it kept when it ran last. For clients that are there already, a start that fails is
// tried again for reopenTime.
func (d *daemon) startNetwork(ctx context.Context, o opening) {
	o.kept = openState(d.cfg, d.log)
	until := time.Now()
	if o.again {
		until = until.Add(reopenTime)
	}
	d.network.Store(startLazy(ctx, o.kept, func(ctx context.Context) (network.Network, error) {
		for {
			n, err := d.open(ctx, o)
			if err == nil || ctx.Err() != nil || time.Now().After(until) {
				return n, err
			}
			d.log.Warn("the network does not start yet; trying again", "error", err)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(reopenPause):
			}
		}
	}))
}

// networkInfo describes the network; zero before it has started.
func (d *daemon) networkInfo() network.Info { return d.network.Load().Info() }

// openMetrics takes the port of --metrics-listen. It comes before the network, which keeps guests away from the port, and is served
// with the clients.
func (d *daemon) openMetrics() (err error) {
	if !d.cfg.MetricsListen.IsValid() {
		return nil
	}
	ln, ok := d.listeners[metricsSocket].(*net.TCPListener)
	if !ok {
		if ln, err = health.ListenMetrics(d.cfg.MetricsListen); err != nil {
			return err
		}
		d.listeners[metricsSocket] = ln
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok { // the port may have been 0
		d.cfg.MetricsListen = a.AddrPort()
	}
	h := health.MetricsAlone(health.Metrics(d.describe, d.log))
	if !d.cfg.MetricsAnywhere {
		h = web.ByAddress(h)
	}
	d.web = append(d.web, control.NewHTTP(h, metricsTime, d.log, ln))
	d.log.Info("metrics can be read", "url", fmt.Sprintf("http://%s%s", ln.Addr(), health.MetricsPath))
	return nil
}

// metricsTime is how long an answer at the port for metrics may take.
const metricsTime = 10 * time.Second

// serve begins to serve the clients of v and those that come, until ctx is done or detach: at the first start, in an image that has
// taken over, and after an exec that failed. Once the network has started, then is called with the sessions of v; without a network
// the daemon ends. The caller holds changing.
func (d *daemon) serve(ctx context.Context, v *detached, then func(context.Context, []*perclient.Session) error) {
	d.server.Network(d.network.Load())
	d.attach(v)
	sessions := d.server.Sessions()
	d.extras.run(d.server.Held())
	for _, w := range d.web {
		w.Run(ctx)
	}
	ctx, d.stopAccept = context.WithCancelCause(ctx)
	n := d.network.Load()
	d.accepting.Go(func() {
		err := n.Wait(ctx)
		if err == nil && ctx.Err() == nil {
			if u, ok := n.opened().(*usernet.Network); ok { // its gateway may have been kept
				<-d.server.Held()
				u.Resume()
			}
			err = then(ctx, sessions)
		}
		if err != nil && ctx.Err() == nil {
			d.fail(err)
		}
	})
	d.accept(ctx, inherit.Stream, d.server.Handle)
	if e := d.extras; e != nil {
		for _, name := range []string{inherit.Attach, inherit.Adopt} {
			d.accept(ctx, name, func(c *net.UnixConn) { e.passing.Connected(name, c) })
		}
	}
}

// accept hands the connections of a listener to handle until ctx is done. What waits then is left to the next image, and at a listener
// that was given to the next process, which the service manager starts.
func (d *daemon) accept(ctx context.Context, name string, handle func(*net.UnixConn)) {
	ln := d.unix(name)
	d.accepting.Go(func() {
		link.Accept(ctx, ln, handle, d.log)
		if d.given.Has(name) || errors.Is(context.Cause(ctx), errHandover) {
			d.log.Debug("a connection that waits is left to the next process")
			return
		}
		link.AcceptWaiting(ln, handle)
	})
}

// ready tells all that the daemon serves. The pidfile comes last: a program that sees it may connect.
func (d *daemon) ready(context.Context, []*perclient.Session) error {
	if d.pidfile != nil {
		if err := d.pidfile.Publish(cmp.Or(d.given.Keeper, os.Getpid())); err != nil {
			return err
		}
	}
	d.tellReady()
	return nil
}

// tellReady tells the service manager that the daemon serves, and has it looked at whether it is in order.
func (d *daemon) tellReady() {
	info := d.networkInfo()
	status := fmt.Sprintf("serving %s: %s, %s", d.cfg.SocketPath, info.Backend, info.Mode)
	if info.Subnet.IsValid() {
		status += ", " + info.Subnet.String()
	}
	d.manager.Ready(status)
	d.health.Look()
}
