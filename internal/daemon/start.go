// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/metrics"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

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

// start brings the daemon up. The pidfile comes last: who sees it may connect. Where SOCKET was given, clients are served while
// the network starts, and run does the rest.
func (d *daemon) start(ctx context.Context) (err error) {
	warnings := compat.PrivilegeWarnings(runtime.GOOS, d.cfg.Backend, os.Geteuid(), os.Getuid())
	for _, w := range append(d.cfg.Warnings, warnings...) {
		d.log.Warn(w)
	}
	if err = d.prepare(); err != nil {
		return err
	}
	if err = d.openMetrics(); err != nil {
		return err
	}
	if err = d.takeGiven(); err != nil {
		return err
	}
	if d.cfg.PidfileSet {
		if d.pidfile, err = compat.AcquirePidfile(d.cfg.Pidfile, d.log); err != nil {
			return err
		}
	}
	if err = d.startNetwork(ctx); err != nil {
		return err
	}
	d.server = d.newServer()
	if d.extras, err = d.openExtras(); err != nil {
		return err
	}
	d.control = d.openControl()
	if d.given.Has(inherit.Stream) {
		return nil
	}
	// Last of the sockets: who can connect to it finds the others as well.
	if d.ln, err = d.lock.Bind(d.owner); err != nil {
		return err
	}
	return d.ready()
}

// newServer makes the server of all clients.
func (d *daemon) newServer() *perclient.Server {
	d.health = d.newHealth()
	return perclient.NewServer(perclient.Options{
		Network:    d.network.Load(),
		MaxClients: d.cfg.MaxClients,
		QueueSize:  d.cfg.QueueSize,
		Log:        d.log,
		Guard:      d.guards.guard(),
		Observer:   d.health,
	})
}

// takeGiven takes what a service manager gives: listening sockets, and where to report to.
func (d *daemon) takeGiven() (err error) {
	d.manager = inherit.TakeNotifier(d.log)
	socket := absolute(d.cfg.SocketPath)
	d.given, err = inherit.Take(inherit.Options{Socket: socket, Dir: rundir.PathOf(socket, d.cfg.RuntimeDir), Log: d.log})
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

// startNetwork takes SOCKET's lock and starts the network. To a socket that was given clients can connect meanwhile.
func (d *daemon) startNetwork(ctx context.Context) (err error) {
	given := d.given.Has(inherit.Stream)
	if d.lock, err = compat.LockSocket(ctx, d.cfg.SocketPath, given, d.log); err != nil {
		return err
	}
	d.openState()
	d.network.Store(startLazy(ctx, func(ctx context.Context) (network.Network, error) { return d.open(ctx, d.kept) }))
	if given {
		d.ln = d.given.Listener(inherit.Stream)
		return nil
	}
	return d.network.Load().Wait(ctx)
}

// openState reads what the network kept when it ran last.
func (d *daemon) openState() {
	d.kept = openState(d.cfg, d.log)
	path := d.kept.Path()
	d.stateFile.Store(&path)
}

// openMetrics takes the port of --metrics-listen. It is served with the clients.
func (d *daemon) openMetrics() error {
	if !d.cfg.MetricsListen.IsValid() {
		return nil
	}
	ln, err := metrics.Listen(d.cfg.MetricsListen)
	if err != nil {
		return err
	}
	d.serveMetrics(ln)
	return nil
}

// metricsTime is how long an answer at the port for metrics may take.
const metricsTime = 10 * time.Second

// serveMetrics comes before the network, which keeps guests away from the port.
func (d *daemon) serveMetrics(ln *net.TCPListener) {
	if a, ok := ln.Addr().(*net.TCPAddr); ok { // the port may have been 0
		d.cfg.MetricsListen = a.AddrPort()
	}
	d.metricsLn = ln
	d.metrics = control.NewHTTP(metrics.Alone(metrics.Handler(d.describe, d.log), d.cfg.MetricsAnywhere), metricsTime, d.log, ln)
	d.log.Info("metrics can be read", "url", fmt.Sprintf("http://%s%s", ln.Addr(), metrics.Path))
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
