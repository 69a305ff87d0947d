// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/upgrade"
)

// portTime is how long the answer to an upgrade waits for the clients' ports.
const portTime = 10 * time.Second

// takeOver goes on as the daemon that has handed itself over. Clients are read at once, while the network starts.
func (d *daemon) takeOver(ctx context.Context, in *handoff.In) (err error) {
	defer in.CloseRest()
	var v saved
	if err := in.Get(section, &v); err != nil {
		return fmt.Errorf("take over the running daemon: %w", err)
	}
	d.began, d.self.upgrades = v.Began, v.Upgrades+1
	if v.Level != "" { // as it was last set, whatever the command line says
		_ = d.logs.SetLevel(v.Level)
	}
	d.manager = inherit.NewNotifier(v.Manager, d.log)
	d.given = inherit.Restore(v.Given, nil, nil)
	call, err := control.RestoreCall(in, v.Call)
	if err != nil {
		d.log.Warn("whoever asked for the upgrade gets no answer", "error", err)
	}
	defer func() {
		if err != nil {
			refuseUpgrade(call, fmt.Errorf("the new program could not take over, and the daemon has ended: %w", err))
		}
	}()
	if err := d.prepare(); err != nil {
		return err
	}
	if err := d.takeOwned(in, &v); err != nil {
		return err
	}
	if d.guards != nil && v.Guards != nil {
		if err := d.guards.Restore(*v.Guards); err != nil {
			d.log.Warn("clients have to show their addresses again", "error", err)
		}
	}
	d.takeMetrics(in, v.Metrics)
	d.restartNetwork(ctx)
	d.server = d.newServer()
	d.server.Recall(v.Server)
	d.takeClients(in, v.Clients)
	var beside savedExtras
	d.extras, beside = takeExtras(d, in)
	d.control = takeControl(in, d.extras, beside, d.controlOptions())
	d.control.answering(call)
	d.server.Restored()
	sessions := d.server.Sessions()
	d.guards.restored(sessions)
	d.then = func(ctx context.Context) { d.answer(ctx, call, in.From(), &v, sessions) }
	return nil
}

// takeOwned takes over what there is one of: locks, pidfile, listener.
func (d *daemon) takeOwned(in *handoff.In, v *saved) (err error) {
	if d.lock, err = compat.RestoreSocketLock(in, v.Lock, d.cfg.SocketPath, d.log); err != nil {
		return err
	}
	if d.cfg.PidfileSet && v.Pidfile != nil {
		if d.pidfile, err = compat.RestorePidfile(in, *v.Pidfile, d.cfg.Pidfile, d.log); err != nil {
			return err
		}
	}
	if d.ln, err = in.UnixListener(v.Socket); err != nil {
		return fmt.Errorf("take over the socket %s: %w", d.cfg.SocketPath, err)
	}
	return nil
}

// takeClients serves the clients of SOCKET. One that cannot be is closed, and may come back.
func (d *daemon) takeClients(in *handoff.In, clients []perclient.Saved) {
	for _, v := range clients {
		if err := d.takeClient(in, v); err != nil {
			d.log.Warn("a client is lost in the upgrade", "client", v.ID, "error", err)
		}
	}
}

func (d *daemon) takeClient(in *handoff.In, v perclient.Saved) error {
	conn, err := in.UnixConn(v.Link.FD)
	if err != nil {
		return err
	}
	l, err := link.RestoreStream(conn, link.StreamOptions{QueueSize: d.cfg.QueueSize}, v.Link)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	if _, err = d.server.Restore(l, perclient.Client{}, v); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// answer tells who asked for the upgrade, and the log, how it went, once all clients have their ports again.
func (d *daemon) answer(ctx context.Context, call *control.Call, from string, v *saved, sessions []*perclient.Session) {
	limit, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	late, gap := 0, time.Since(v.Paused)
	for _, x := range sessions {
		if _, err := x.Ready(limit); err == nil {
			gap = time.Since(v.Paused)
		} else if !ended(x) {
			late++
		}
	}
	if late > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d clients have no network yet; they are tried again", late))
	}
	r := upgrade.Result{From: from, To: compat.Version, PID: os.Getpid(), Clients: byTransport(sessions), Notes: append([]string{}, v.Notes...)}
	r.SetGap(gap)
	args := []any{"from", r.From, "to", r.To, "clients", len(sessions), "gap", fmt.Sprintf("%.0fms", r.Gap)}
	if len(r.Notes) > 0 {
		args = append(args, "notes", r.Notes)
	}
	d.log.Info("upgraded", args...)
	d.tellReady()
	call.Answer(r)
}

// ended reports whether x is over.
func ended(x *perclient.Session) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

// byTransport is how many of the sessions there are of each kind.
func byTransport(sessions []*perclient.Session) map[string]int {
	n := map[string]int{}
	for _, x := range sessions {
		switch x.Transport() {
		case status.Stream:
			n["stream"]++
		case status.Unixgram:
			n["dgram"]++
		default:
			n["passed"]++
		}
	}
	return n
}
