// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/antispoof"
	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/lazynet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/upgrade"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

const (
	// standTime is how long it may take until no client is read any more and all ports are closed. On vmnet that is the time
	// of stopping an interface.
	standTime = 5 * time.Second

	// flushTime is how long clients that are behind have to take what is queued for them.
	flushTime = 20 * time.Millisecond

	// reopenTime is how long a network that clients wait for is tried to be started, and reopenPause the time between two
	// attempts: the system may need a while to let go of the former one.
	reopenTime  = 30 * time.Second
	reopenPause = 250 * time.Millisecond
)

// saved is what the daemon hands to the program that takes its place, besides its extras.
type saved struct {
	Began   time.Time            `json:"began"`  // of the daemon
	Paused  time.Time            `json:"paused"` // when the last frame was carried
	Lock    compat.SavedLock     `json:"lock"`
	Pidfile *compat.SavedPidfile `json:"pidfile,omitempty"`
	Socket  int                  `json:"socket"` // the listener
	Clients []perclient.Saved    `json:"clients"`
	Call    control.SavedCall    `json:"call"`
	Notes   []string             `json:"notes"` // what does not survive
	Given   inherit.Saved        `json:"given"`
	Manager string               `json:"manager"` // address of the service manager
	Guards  *antispoof.Saved     `json:"guards,omitempty"`
	Level   string               `json:"log_level,omitempty"`
	Metrics int                  `json:"metrics,omitempty"` // the listener for Prometheus; 0: there is none

	Upgrades int              `json:"upgrades,omitempty"` // before this one
	Server   perclient.Totals `json:"server,omitzero"`
}

// section is where it is in the manifest.
const section = "daemon"

// upgrade goes on as the program that is now at the daemon's path. It returns only if that did not come about.
func (d *daemon) upgrade(ctx context.Context, call *control.Call) {
	d.changing.Lock()
	defer d.changing.Unlock()
	steps := upgradeSteps(d.path, os.Args, d.kept, d.log)
	var v saved
	steps.Pause = func(ctx context.Context) error { return d.pause(ctx, &v) }
	steps.Save = func(o *handoff.Out) error { return d.save(o, &v, call) }
	steps.Resume = func() { d.resume(ctx) }
	steps.Log = d.log
	refuseUpgrade(call, upgrade.Run(ctx, compat.Version, steps))
}

// pause has everything stand still: nobody is accepted, no frame is read, and the network ends, with what it keeps written.
func (d *daemon) pause(ctx context.Context, v *saved) error {
	if d.network.Load().Inner() == nil {
		return errors.New("the daemon is still starting")
	}
	d.stood = true
	d.manager.Reloading()
	d.accept.stop(errHandover)
	d.control.pause()
	d.metrics.Pause()
	d.extras.pauseRequests()
	ctx, cancel := context.WithTimeoutCause(ctx, standTime, fmt.Errorf("it took longer than %v", standTime))
	defer cancel()
	d.extras.pauseFrames()
	v.Paused = time.Now()
	if err := d.server.Pause(ctx); err != nil {
		return err
	}
	if n := flows(d.network.Load().Inner()); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d NAT connections ended: the embedded network's connections to the outside and the host are its own", n))
	}
	d.closeNetwork()
	d.server.Flush(flushTime)
	return nil
}

// save notes what the new program needs.
func (d *daemon) save(o *handoff.Out, v *saved, call *control.Call) (err error) {
	v.Began, v.Given, v.Manager = d.began, d.given.Save(), d.manager.Addr()
	v.Level = d.logs.Level()
	d.logs.Flush() // nothing that was held back is lost with this image
	v.Upgrades, v.Server = d.self.upgrades, d.server.Save()
	if d.guards != nil {
		g := d.guards.Save()
		v.Guards = &g
	}
	if v.Lock, err = d.lock.Save(o); err != nil {
		return err
	}
	if d.pidfile != nil {
		p, err := d.pidfile.Save(o)
		if err != nil {
			return err
		}
		v.Pidfile = &p
	}
	if v.Socket, err = o.Conn(d.ln); err != nil {
		return err
	}
	if v.Call, err = call.Save(o); err != nil {
		return err
	}
	for _, x := range d.server.Sessions() {
		if x.Transport() != status.Stream {
			continue // its owner saves it
		}
		if c, ok := x.Save(); ok {
			o.FD(c.Link.FD)
			v.Clients = append(v.Clients, c)
		}
	}
	if err := d.extras.save(o, d.control); err != nil {
		return err
	}
	if err := d.saveMetrics(o, v); err != nil {
		return err
	}
	return o.Put(section, v)
}

// resume undoes pause and save, however far they came.
func (d *daemon) resume(ctx context.Context) {
	if !d.stood {
		return
	}
	d.stood = false
	if ctx.Err() == nil {
		d.closeNetwork() // if it did not come to that
		d.restartNetwork(ctx)
		d.server.Use(d.network.Load())
	}
	d.server.Resume()
	d.extras.resume()
	d.control.resume()
	d.metrics.Resume()
	d.acceptAll(ctx, func(context.Context) { d.tellReady() })
}

// restartNetwork begins to start the network for clients that are there already, with what it kept.
func (d *daemon) restartNetwork(ctx context.Context) {
	d.openState()
	d.network.Store(lazynet.Start(ctx, d.reopen))
}

// reopen starts the network and is patient.
func (d *daemon) reopen(ctx context.Context) (vnet.Network, error) {
	ctx = context.WithValue(ctx, againKey{}, true)
	for until := time.Now().Add(reopenTime); ; {
		n, err := d.open(ctx, d.kept)
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
}

// networkInfo describes the network; zero before it has started.
func (d *daemon) networkInfo() vnet.NetworkInfo { return d.network.Load().Info() }

// controlOptions are those of the daemon's control socket.
func (d *daemon) controlOptions() control.Options {
	o := controlOptions(d.cfg, d.began, d.log, d.upgrade)
	o.Handle, o.Source = d.routes(), source{d}
	return o
}

const (
	// execLimit is how long an exec may take. It is a matter of milliseconds, but on macOS Go waits before it, possibly for ever: see
	// docs/upstream/go-preemptone.md.
	execLimit = 5 * time.Second

	// execAlarm is when the system ends a process that could not end itself. Whoever waits in the exec holds a lock that the scheduler
	// needs, so that no goroutine may run any more: with GOMAXPROCS=1, or once the garbage collector has begun to stop the others.
	execAlarm = 6 // seconds
)

// endUnlessReplaced ends the process unless the exec happens in time, so that the service manager starts it again. The
// returned function is to be called when the exec has failed.
func endUnlessReplaced(log *slog.Logger) (undo func()) {
	timer := time.AfterFunc(execLimit, func() {
		log.Error("upgrade: exec did not happen in 5 s, ending so that the service manager starts the program again")
		os.Exit(1)
	})
	undoAlarm := endAfter(execAlarm)
	return func() {
		undoAlarm()
		timer.Stop()
	}
}
