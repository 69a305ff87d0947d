// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// self is what a daemon knows of itself for describe alone.
type self struct {
	upgrades  int                    // in place, since the start; set before clients are served
	stateFile atomic.Pointer[string] // its path
	users     userNames
	processes processNames
}

// openState reads what the network kept when it ran last.
func (d *daemon) openState() {
	d.kept = openState(d.cfg, d.log)
	path := d.kept.Path()
	d.self.stateFile.Store(&path)
}

// describe tells all that the daemon knows of itself. It may be called from any goroutine at any time once clients may be served:
// while the network starts, during an upgrade, at the stop. It waits for nothing that a client or macOS could hold up.
func (d *daemon) describe() status.Status {
	now := time.Now()
	clients, totals := d.server.Census()
	st := status.Status{
		Format:  status.Format,
		Now:     now.UTC(),
		Daemon:  d.describeDaemon(now),
		Network: d.describeNetwork(),
		Clients: make([]status.Client, 0, len(clients)),
		Totals:  status.Totals{Connects: totals.Connects, Refused: totals.Refused},
	}
	for _, i := range clients {
		st.Clients = append(st.Clients, d.describeClient(i, now))
	}
	st.Totals.ToNet = toNet(totals.Link, totals.Ports, totals.DropHeld, totals.Spoofed)
	st.Totals.ToClient = toClient(totals.Link, totals.Ports)
	d.self.processes.forget(clients)
	st.Health = d.problems(st)
	return st
}

// problems are what a user would want to know of a daemon that is as st tells.
func (d *daemon) problems(st status.Status) []status.Problem { return d.health.Problems(st) }

func (d *daemon) describeDaemon(now time.Time) status.Daemon {
	s := status.Daemon{
		Version: compat.Version, PID: os.Getpid(), UID: os.Geteuid(), Program: d.path, Socket: absolute(d.cfg.SocketPath),
		Started: d.began.UTC(), Uptime: seconds(now.Sub(d.began)), Upgrades: d.self.upgrades, LogLevel: d.logs.Level(),
		MaxClients: d.cfg.MaxClients, QueueSize: d.cfg.QueueSize,
	}
	if d.extras != nil {
		s.RuntimeDir = d.extras.dir.Path()
	}
	if p := d.self.stateFile.Load(); p != nil {
		s.StateFile = *p
	}
	if d.captures != nil {
		c := d.captures.Stats()
		s.Captures = status.Captures{Running: c.Running, Started: c.Started, Stalled: c.Stalled}
	}
	if d.metrics != nil {
		s.Metrics = d.metrics.Addr().String()
	}
	if d.cfg.PidfileSet {
		s.Pidfile = absolute(d.cfg.Pidfile)
	}
	return s
}

// seconds is d with milliseconds, never negative: the wall clock may have been set back.
func seconds(d time.Duration) float64 {
	return float64(max(0, d).Round(time.Millisecond).Milliseconds()) / 1000
}

// describeNetwork tells of the network what the command line asks for, and once it runs what it is.
func (d *daemon) describeNetwork() status.Network {
	cfg := d.cfg
	n := status.Network{
		State: status.NetworkStarting, Backend: string(cfg.Backend.Resolve(runtime.GOOS)), Mode: string(cfg.Mode), Subnet: cfg.Subnet, Gateway: cfg.Gateway,
		Interface: cfg.Interface, Isolated: cfg.Isolate, AntiSpoof: cfg.AntiSpoof,
	}
	vmnet := n.Backend == string(compat.BackendVmnet)
	n.Offload = vmnet && cfg.Offload
	lazy := d.network.Load()
	if lazy == nil {
		return n
	}
	inner := lazy.Inner()
	if inner == nil {
		if err := lazy.Err(); err != nil {
			n.State, n.Error = status.NetworkFailed, err.Error()
		}
		return n
	}
	n.State = status.NetworkRunning
	describeInner(&n, inner)
	if u := n.Usernet; u != nil && u.Gateway.PID != 0 {
		u.Gateway.User = d.self.users.name(uint32(u.Gateway.UID))
	}
	return n
}

// describeInner tells what a network that runs says of itself.
func describeInner(n *status.Network, inner vnet.Network) {
	i := inner.Info()
	n.Backend, n.Mode, n.Subnet, n.Gateway = i.Backend, string(i.Mode), i.Subnet, i.Gateway
	n.MTU, n.MaxFrame, n.Interface, n.Isolated, n.Offload = i.MTU, i.MaxFrame, i.Interface, i.Isolated, i.Offload
	if i.DHCPStart.IsValid() {
		n.DHCP = &status.DHCP{Start: i.DHCPStart, End: i.DHCPEnd}
	}
	if u, ok := inner.(*usernet.Network); ok {
		n.DHCP, n.Usernet = u.Status()
	}
	if s, ok := VmnetStatus(inner); ok {
		n.Vmnet = &status.Vmnet{
			API: s.API, Why: s.Why, InterfaceID: s.Anchor.InterfaceID, Own: s.Own, Shared: s.Shared, Starts: s.Starts,
			StartFailures: s.StartFailures, Restarts: s.Restarts, Promoted: s.Promoted, Exhausted: s.Exhausted,
		}
		if s.LastFailure != nil {
			n.Vmnet.LastFailure = s.LastFailure.Error()
		}
	}
}

// newHealth makes what tells the daemon's problems.
func (d *daemon) newHealth() *health.Monitor {
	return health.New(health.Options{
		Log:          d.log,
		Status:       d.describe,
		Addresses:    freenet.System,
		DHCPOff:      dhcpOff(d.cfg),
		OneInterface: d.cfg.VmnetInterfaces == compat.InterfacesOne,
	})
}

// dhcpOff is the option that makes a network without a DHCP server; empty if none was given.
func dhcpOff(cfg *compat.Config) string {
	switch {
	case cfg.DisableDHCP:
		return "--vmnet-disable-dhcp"
	case cfg.NetworkIDSet && cfg.Mode == vnet.ModeHost:
		return "--vmnet-network-identifier"
	}
	return ""
}
