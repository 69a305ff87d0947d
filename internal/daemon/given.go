// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/rundir"
)

// takeGiven takes what a service manager gives: listening sockets, and where to report to.
func (d *daemon) takeGiven() (err error) {
	inherit.DropUnheeded()
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

// startGiven begins to start the network behind a socket that was given. Clients need not wait for it to connect.
func (d *daemon) startGiven(ctx context.Context) (err error) {
	if d.lock, err = compat.LockGiven(ctx, d.cfg.SocketPath, d.log); err != nil {
		return err
	}
	d.startNetwork(ctx)
	d.ln = d.given.Listener(inherit.Stream)
	return nil
}

// tellReady tells the service manager that the daemon serves, and has it looked at whether it is in order.
func (d *daemon) tellReady() {
	info := d.network.Load().Info()
	status := fmt.Sprintf("serving %s: %s, %s", d.cfg.SocketPath, info.Backend, info.Mode)
	if info.Subnet.IsValid() {
		status += ", " + info.Subnet.String()
	}
	d.manager.Ready(status)
	d.health.Look()
}
