// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/upgrade"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// portTime is how long the answer to an upgrade waits for the clients' ports.
const portTime = 10 * time.Second

// takeOver goes on as the daemon that has handed itself over. Clients are read at once, while the network starts.
func (d *daemon) takeOver(ctx context.Context, in *handover.In) (err error) {
	defer in.CloseRest()
	var m manifest
	if err := in.Get(section, &m); err != nil {
		return fmt.Errorf("take over the running daemon: %w", err)
	}
	d.began, d.upgrades = m.Began, m.Upgrades+1
	if m.Level != "" { // as it was last set, whatever the command line says
		_ = d.logs.SetLevel(m.Level)
	}
	d.manager = inherit.NewNotifier(m.Manager, d.log)
	d.given = inherit.Restore(m.Given, nil, nil)
	call, err := control.RestoreCall(in, m.Call)
	if err != nil {
		d.log.Warn("the program that asked for the upgrade gets no answer", "error", err)
	}
	defer func() {
		if err != nil {
			refuse(call, fmt.Errorf("the new program could not take over, and the daemon has ended: %w", err))
		}
	}()
	if err := d.prepare(); err != nil {
		return err
	}
	if err := d.takeOwned(in, &m); err != nil {
		return err
	}
	if d.guards != nil && m.Guards != nil {
		if err := d.guards.Restore(*m.Guards); err != nil {
			d.log.Warn("clients have to show their addresses again", "error", err)
		}
	}
	d.takeMetrics(in, m.Metrics)
	d.restartNetwork(ctx, d.takeGateway(in, m.Gateway))
	d.server = d.newServer()
	d.server.Recall(m.Server)
	d.extras = d.takeExtras(in, m.Extras)
	d.control = d.takeControl(in, m.Extras)
	d.control.do(func(s *control.Server) { s.Continue(call) }) // further upgrades are refused until it is answered
	d.takeDescriptors(in, &m)
	d.attach(&m.detached)
	sessions := d.server.Sessions()
	d.guards.restored(sessions)
	d.then = func(ctx context.Context) { d.answer(ctx, call, in.From(), &m, sessions) }
	return nil
}

// takeGateway takes the gateway's process over; nil when there is none, or when it cannot be: then another one is started.
func (d *daemon) takeGateway(in *handover.In, v *savedGateway) *usernet.Inherited {
	if v == nil {
		return nil
	}
	i := &usernet.Inherited{State: v.State, Sockets: make([]usernet.Socket, len(v.Forwards))}
	var err error
	if i.Pair, err = in.UnixConn(v.Pair); err != nil {
		d.log.Warn("connections to the outside are lost in the upgrade", "error", err)
		return nil
	}
	for n, fd := range v.Forwards {
		if fd == 0 {
			continue
		}
		if f, err := in.File(fd); err == nil {
			i.Sockets[n] = f
		} // else it is opened anew
	}
	return i
}

// takeDescriptors takes over those of the clients. One that has not all of its own is lost.
func (d *daemon) takeDescriptors(in *handover.In, m *manifest) {
	m.Clients = slices.DeleteFunc(m.Clients, func(v perclient.Detached) bool {
		err := takeAll(in, v.Descriptors())
		if err != nil {
			d.log.Warn("a client is lost in the upgrade", "client", v.ID, "error", err)
		}
		return err != nil
	})
}

func takeAll(in *handover.In, descriptors []link.Descriptor) error {
	for _, d := range descriptors {
		if err := in.Take(d.FD); err != nil {
			return err
		}
	}
	return nil
}

// takeExtras takes the extras over; nil when there are none, or when they cannot be, which the log tells and costs their clients only.
func (d *daemon) takeExtras(in *handover.In, v *savedExtras) *extras {
	if v == nil {
		return nil
	}
	e := &extras{d: d}
	if err := e.take(in, v); err != nil {
		e.close(context.Background())
		d.log.Warn("datagram clients and passed descriptors are lost in the upgrade", "error", err)
		return nil
	}
	return e
}

// take fills e in. What it has taken is closed by close, also after an error.
func (e *extras) take(in *handover.In, v *savedExtras) (err error) {
	if e.dir, err = rundir.Restore(in, v.Dir, e.d.log); err != nil {
		return err
	}
	if e.attachLn, err = in.UnixListener(v.Attach); err != nil {
		return fmt.Errorf("take over the socket attach: %w", err)
	}
	if e.adoptLn, err = in.UnixListener(v.Adopt); err != nil {
		return fmt.Errorf("take over the socket adopt: %w", err)
	}
	if err = takeAll(in, v.Dgram.Descriptors()); err != nil {
		return err
	}
	if e.shared, err = dgram.Attach(e.sharedOptions(), v.Dgram); err != nil {
		return err
	}
	e.passing = passfd.NewServer(e.passingOptions())
	return nil
}

// takeControl takes the control sockets over; nil when there are none. A daemon that had none for root gets it now.
func (d *daemon) takeControl(in *handover.In, v *savedExtras) *controller {
	if d.extras == nil || v.Control == 0 {
		return nil
	}
	ln, err := in.UnixListener(v.Control)
	if err != nil {
		d.log.Warn("the daemon cannot be asked or upgraded, it does its work", "error", err)
		return nil
	}
	if v.Root == 0 {
		return d.newController(ln, d.extras.listenRoot())
	}
	root, err := in.UnixListener(v.Root)
	if err != nil {
		d.log.Warn("root and the daemon's user share the control socket with its group", "error", err)
	}
	return d.newController(ln, root)
}

// takeOwned takes over what there is one of: locks, pidfile, listener.
func (d *daemon) takeOwned(in *handover.In, v *manifest) (err error) {
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

// answer tells who asked for the upgrade, and the log, how it went, once all clients have their ports again.
func (d *daemon) answer(ctx context.Context, call *control.Call, from string, v *manifest, sessions []*perclient.Session) {
	limit, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	late, gap := 0, time.Since(v.Stopped)
	for _, x := range sessions {
		if _, err := x.Ready(limit); err == nil {
			gap = time.Since(v.Stopped)
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

// takeMetrics goes on with the port. The clients do not depend on it, so the daemon does without where it has to.
func (d *daemon) takeMetrics(in *handover.In, fd int) {
	if !d.cfg.MetricsListen.IsValid() {
		return
	}
	err := error(nil)
	if fd != 0 {
		var ln *net.TCPListener
		if ln, err = in.TCPListener(fd); err == nil {
			d.serveMetrics(ln)
			return
		}
	}
	if again := d.openMetrics(); again != nil {
		d.log.Warn("metrics cannot be read at the port any more", "error", again, "taking_over", err)
	}
}
