// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/antispoof"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// detachTime is how long it may take until no client is read any more and all ports are closed. On vmnet that is the time
	// of stopping an interface.
	detachTime = 5 * time.Second

	// reopenTime is how long a network that clients wait for is tried to be started, and reopenPause the time between two
	// attempts: the system may need a while to let go of the former one.
	reopenTime  = 30 * time.Second
	reopenPause = 250 * time.Millisecond
)

// A detached daemon has everything and serves nobody. attach makes it serve again, from the same values in this image as in the next.
type detached struct {
	Stopped time.Time            `json:"stopped"` // when the last frame was carried
	Clients []perclient.Detached `json:"clients"`
	Notes   []string             `json:"notes"` // what does not survive

	gateway       *usernet.Inherited // goes on; nil: there is none, or it ends
	networkClosed bool
}

// A manifest is what the daemon hands to the program that takes its place.
type manifest struct {
	detached
	Began   time.Time            `json:"began"` // of the daemon
	Lock    compat.SavedLock     `json:"lock"`
	Pidfile *compat.SavedPidfile `json:"pidfile,omitempty"`
	Socket  int                  `json:"socket"` // the listener
	Call    control.SavedCall    `json:"call"`
	Given   inherit.Saved        `json:"given"`
	Manager string               `json:"manager"` // address of the service manager
	Guards  *antispoof.Saved     `json:"guards,omitempty"`
	Level   string               `json:"log_level,omitempty"`
	Metrics int                  `json:"metrics,omitempty"` // the listener for Prometheus; 0: there is none
	Extras  *savedExtras         `json:"extras,omitempty"`
	Gateway *savedGateway        `json:"gateway,omitempty"`

	Upgrades int              `json:"upgrades,omitempty"` // before this one
	Server   perclient.Totals `json:"server,omitzero"`
}

// savedExtras are the extras for the program that takes the daemon's place. Listeners are descriptors.
type savedExtras struct {
	Dir     rundir.Saved `json:"dir"`
	Attach  int          `json:"attach"`
	Adopt   int          `json:"adopt"`
	Control int          `json:"control,omitempty"`      // 0: there is none
	Root    int          `json:"control_root,omitempty"` // 0: there is none
	Dgram   dgram.State  `json:"dgram"`
}

// A savedGateway is the gateway's process, for the program that takes the daemon's place. Sockets are descriptors.
type savedGateway struct {
	State    usernet.GatewayState `json:"state"`
	Pair     int                  `json:"pair"`
	Forwards []int                `json:"forwards,omitempty"` // 0: there is none yet
}

// section is where the manifest is among what is handed over.
const section = "daemon"

// detach ends all that serves: nobody is accepted, no frame is read, and the network ends, with what it keeps written. An error says
// that not all clients have come to rest; those are attached again when they have. The result is nil if nothing has changed.
func (d *daemon) detach(ctx context.Context, call *control.Call) (*detached, error) {
	if d.network.Load().opened() == nil {
		return nil, errors.New("the daemon is still starting")
	}
	v := &detached{}
	d.manager.Reloading()
	d.accept.stop(errHandover)
	d.control.do((*control.Server).Detach)
	d.metrics.Detach()
	d.extras.detach()
	ctx, cancel := context.WithTimeoutCause(ctx, detachTime, fmt.Errorf("it took longer than %v", detachTime))
	defer cancel()
	v.Stopped = time.Now()
	var err error
	v.Clients, err = d.server.Detach(ctx, func() { d.detachGateway(v, call) }, func() {
		d.closeNetwork()
		v.networkClosed = true
	}, d.attachLate)
	return v, err
}

// detachGateway keeps the gateway's process, with its connections, for the next network, unless call says otherwise.
func (d *daemon) detachGateway(v *detached, call *control.Call) {
	u, ok := d.network.Load().opened().(*usernet.Network)
	switch {
	case !ok:
		return
	case call != nil && call.Gateway:
		v.Notes = append(v.Notes, "connections to the outside ended: the gateway was started anew")
		return
	}
	var err error
	if v.gateway, err = u.Detach(); err != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("connections to the outside ended: %v", err))
	}
}

// save notes what the new program needs.
func (d *daemon) save(o *handover.Out, v *detached, call *control.Call) (err error) {
	m := manifest{detached: *v, Began: d.began, Given: d.given.Save(), Manager: d.manager.Addr(), Level: d.logs.Level()}
	d.logs.Flush() // nothing that was held back is lost with this image
	m.Upgrades, m.Server = d.upgrades, d.server.Gone()
	if d.guards != nil {
		g := d.guards.Save()
		m.Guards = &g
	}
	if m.Lock, err = d.lock.Save(o); err != nil {
		return err
	}
	if d.pidfile != nil {
		p, err := d.pidfile.Save(o)
		if err != nil {
			return err
		}
		m.Pidfile = &p
	}
	if m.Socket, err = o.Conn(d.ln); err != nil {
		return err
	}
	if m.Call, err = call.Save(o); err != nil {
		return err
	}
	for i := range m.Clients {
		list(o, m.Clients[i].Descriptors())
	}
	if m.Extras, err = d.extras.save(o, d.control); err != nil {
		return err
	}
	if m.Gateway, err = saveGateway(o, v.gateway); err != nil {
		return err
	}
	if d.metricsLn != nil {
		if m.Metrics, err = o.Conn(d.metricsLn); err != nil {
			return err
		}
	}
	return o.Put(section, m)
}

func saveGateway(o *handover.Out, i *usernet.Inherited) (g *savedGateway, err error) {
	if i == nil {
		return nil, nil
	}
	g = &savedGateway{State: i.State, Forwards: make([]int, len(i.Sockets))}
	if g.Pair, err = o.Conn(i.Pair); err != nil {
		return nil, err
	}
	for n, s := range i.Sockets {
		if s != nil {
			if g.Forwards[n], err = o.Conn(s); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// list notes that descriptors survive.
func list(o *handover.Out, descriptors []link.Descriptor) {
	for _, d := range descriptors {
		o.FD(d.FD)
	}
}

// attachAgain serves again after an upgrade that did not come about. v is nil if nothing was detached.
func (d *daemon) attachAgain(ctx context.Context, v *detached) {
	if v == nil {
		return
	}
	if v.gateway != nil && !v.networkClosed { // it has no gateway any more
		d.closeNetwork()
		v.networkClosed = true
	}
	if v.networkClosed && ctx.Err() == nil {
		d.restartNetwork(ctx, v.gateway)
		d.server.Network(d.network.Load())
	}
	d.attach(v)
	d.extras.run(d.server.Held())
	d.control.do((*control.Server).Attach)
	d.metrics.Attach()
	d.acceptAll(ctx, func(context.Context) { d.tellReady() })
}

// attach has the clients of v served, and answered that wait at the extras.
func (d *daemon) attach(v *detached) {
	for id, err := range d.server.Attach(v.Clients, d.linkOf) {
		d.log.Warn("a client is lost in the upgrade", "client", id, "error", err)
	}
	d.extras.attach()
}

// attachLate serves a client again that did not come to rest in time.
func (d *daemon) attachLate(v perclient.Detached) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.attach(&detached{Clients: []perclient.Detached{v}})
}

// linkOf makes the link of a client that was detached, whose sockets it takes over.
func (d *daemon) linkOf(v *perclient.Detached) (link.Link, error) {
	switch {
	case v.Client.Transport == status.Stream:
		return link.AttachStream(link.StreamOptions{QueueSize: d.cfg.QueueSize}, v.Link)
	case d.extras == nil:
		return nil, errors.New("the socket that it came by is lost")
	case v.Client.Transport == status.Unixgram:
		return d.extras.shared.Link(v.Client.Path, v.Link)
	}
	return d.extras.passing.Link(v)
}

// restartNetwork begins to start the network for clients that are there already, with what it kept and the gateway that it had, if
// that is not nil.
func (d *daemon) restartNetwork(ctx context.Context, gateway *usernet.Inherited) {
	d.openState()
	d.network.Store(startLazy(context.WithValue(ctx, againKey{}, gateway), d.reopen))
}

// goOn lets a gateway that was kept go on, once the clients are read again.
func (d *daemon) goOn() {
	if u, ok := d.network.Load().opened().(*usernet.Network); ok {
		<-d.server.Held()
		u.Resume()
	}
}

// reopen starts the network and is patient.
func (d *daemon) reopen(ctx context.Context) (network.Network, error) {
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
func (d *daemon) networkInfo() network.Info { return d.network.Load().Info() }
