// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/antispoof"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A detached daemon has everything and serves no client. serve makes it serve again, from the same values in this image as in the next.
type detached struct {
	Stopped time.Time            `json:"stopped"` // when the last frame was carried
	Clients []perclient.Detached `json:"clients"`
	Notes   []string             `json:"notes"` // what does not survive

	gateway       *usernet.Inherited // goes on; nil: there is none, or it ends
	networkClosed bool
}

// A manifest is what the daemon hands to the program that takes its place. Sockets are descriptors.
type manifest struct {
	detached
	From      string               `json:"from"`  // version of this program
	Began     time.Time            `json:"began"` // of the daemon
	Lock      compat.SavedLock     `json:"lock"`
	Pidfile   *compat.SavedPidfile `json:"pidfile,omitempty"`
	Listeners map[string]int       `json:"listeners"`
	Call      int                  `json:"call"` // of the program that asked for the upgrade
	Given     inherit.Given        `json:"given"`
	Leases    []antispoof.Lease    `json:"leases,omitempty"` // that the guards know
	Level     string               `json:"log_level"`
	Extras    *savedExtras         `json:"extras,omitempty"`
	Gateway   *savedGateway        `json:"gateway,omitempty"`

	Upgrades int              `json:"upgrades,omitempty"` // before this one
	Server   perclient.Totals `json:"server,omitzero"`
}

// savedExtras are the extras for the program that takes the daemon's place, but for their listeners.
type savedExtras struct {
	Dir   rundir.Saved `json:"dir"`
	Dgram dgram.State  `json:"dgram"`
}

// A savedGateway is the gateway's process, for the program that takes the daemon's place.
type savedGateway struct {
	State    usernet.GatewayState `json:"state"`
	Pair     int                  `json:"pair"`
	Forwards []int                `json:"forwards,omitempty"` // 0: there is none yet
}

// portTime is how long the answer to an upgrade waits for the clients' ports.
const portTime = 10 * time.Second

// save notes what the new program needs.
func (d *daemon) save(o *handover.Out, v *detached, call *net.UnixConn) (_ *manifest, err error) {
	d.logs.Flush() // nothing that was held back is lost with this image
	m := &manifest{
		detached: *v, From: compat.Version, Began: d.began, Lock: d.lock.Save(o), Listeners: map[string]int{}, Call: o.Conn(call), Given: d.given,
		Level: d.logs.Level(), Upgrades: d.upgrades, Server: d.server.Gone(),
	}
	if d.given.Pair != 0 {
		o.FD(d.given.Pair)
	}
	if d.pidfile != nil {
		p := d.pidfile.Save(o)
		m.Pidfile = &p
	}
	for name, ln := range d.listeners {
		m.Listeners[name] = o.Conn(ln)
	}
	if d.guards != nil {
		m.Leases = d.guards.Leases()
	}
	if g := v.gateway; g != nil {
		m.Gateway = &savedGateway{State: g.State, Pair: o.Conn(g.Pair), Forwards: make([]int, len(g.Sockets))}
		for n, s := range g.Sockets {
			if s != nil {
				m.Gateway.Forwards[n] = o.Conn(s)
			}
		}
	}
	if e := d.extras; e != nil {
		m.Extras = &savedExtras{Dgram: e.shared.State()}
		o.FD(numbers(m.Extras.Dgram.Descriptors())...)
		if m.Extras.Dir, err = e.dir.Save(o); err != nil {
			return nil, err
		}
	}
	for i := range m.Clients {
		o.FD(numbers(m.Clients[i].Descriptors())...)
	}
	return m, nil
}

// numbers are those of descriptors.
func numbers(list []link.Descriptor) (fds []int) {
	for _, d := range list {
		fds = append(fds, d.FD)
	}
	return fds
}

// takeOver goes on as the daemon that has handed itself over.
func (d *daemon) takeOver(ctx context.Context, in *handover.In, m *manifest) (err error) {
	defer in.CloseRest()
	if err := in.Get(m); err != nil {
		return fmt.Errorf("take over the running daemon: %w", err)
	}
	d.began, d.upgrades = m.Began, m.Upgrades+1
	_ = d.logs.SetLevel(m.Level) // as it was last set, whatever the command line says
	if d.call, err = handover.Socket[*net.UnixConn](in, m.Call); err != nil {
		d.log.Warn("the program that asked for the upgrade gets no answer", "error", err)
	}
	d.upgrading.Lock() // until it is answered
	if err = d.prepare(); err == nil {
		err = d.take(in, m)
	}
	if err == nil {
		err = d.bringUp(ctx, in, m)
	}
	if err != nil {
		control.Answer(d.call, fmt.Errorf("the new program could not take over, and the daemon has ended: %w", err))
	}
	return err
}

// take takes over what bringUp finds and does not take itself.
func (d *daemon) take(in *handover.In, m *manifest) error {
	d.given, d.manager = m.Given, inherit.Notifier{Addr: m.Given.Manager, Pair: m.Given.Pair, Log: d.log}
	if d.given.Pair != 0 && in.Take(d.given.Pair) != nil {
		return errors.New("take over the socket to the keeper: it was not handed over")
	}
	for name, fd := range m.Listeners {
		ln, err := handover.Socket[listener](in, fd)
		if err != nil {
			return fmt.Errorf("take over the socket %s: %w", name, err)
		}
		d.listeners[name] = ln
	}
	m.Clients = slices.DeleteFunc(m.Clients, func(v perclient.Detached) bool {
		err := in.Take(numbers(v.Descriptors())...)
		if err != nil {
			d.log.Warn(clientLost, "client", v.ID, "error", err)
		}
		return err != nil
	})
	if m.Extras != nil {
		if err := in.Take(numbers(m.Extras.Dgram.Descriptors())...); err != nil {
			return fmt.Errorf("take over the datagram sockets: %w", err)
		}
	}
	if d.guards != nil {
		d.guards.Leased(m.Leases)
	}
	return nil
}

// takeGateway takes over the gateway that the network had; nil if there is none that goes on.
func (d *daemon) takeGateway(in *handover.In, m *manifest) *usernet.Inherited {
	v := m.Gateway
	if v == nil {
		return nil
	}
	g := &usernet.Inherited{State: v.State, Sockets: make([]usernet.Socket, len(v.Forwards))}
	var err error
	g.Pair, err = handover.Socket[*net.UnixConn](in, v.Pair)
	for n, fd := range v.Forwards {
		if fd != 0 && err == nil {
			g.Sockets[n], err = in.File(fd)
		}
	}
	if err != nil {
		m.Notes = append(m.Notes, fmt.Sprintf(gatewayLost, err))
		return nil
	}
	return g
}

// answer tells the program that asked for the upgrade, and the log, how it went, once all clients have their ports again.
func (d *daemon) answer(ctx context.Context, m *manifest, sessions []*perclient.Session) {
	limit, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	late, gap := 0, time.Since(m.Stopped)
	kinds := map[string]int{}
	for _, x := range sessions {
		if _, err := x.Ready(limit); err == nil {
			gap = time.Since(m.Stopped)
		} else if !ended(x) {
			late++
		}
		kinds[cmp.Or(kindOf[x.Transport()], "passed")]++
	}
	notes := append([]string{}, m.Notes...)
	if late > 0 {
		notes = append(notes, fmt.Sprintf("%d clients have no network yet; they are tried again", late))
	}
	r := control.Upgraded{
		From: m.From, To: compat.Version, PID: os.Getpid(), Clients: kinds, Notes: notes,
		Gap: float64(gap.Round(100*time.Microsecond)) / float64(time.Millisecond),
	}
	args := []any{"from", r.From, "to", r.To, "clients", len(sessions), "gap", fmt.Sprintf("%.0fms", r.Gap)}
	if len(notes) > 0 {
		args = append(args, "notes", notes)
	}
	d.log.Info("upgraded", args...)
	d.tellReady()
	d.upgrading.Unlock()
	control.Answer(d.call, r)
}

// kindOf is what the answer calls a transport.
var kindOf = map[string]string{status.Stream: "stream", status.Unixgram: "dgram"}

// ended reports whether x is over.
func ended(x *perclient.Session) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

// A listener is one of TCP or unix.
type listener interface {
	net.Listener
	syscall.Conn
}
