// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// describe tells all that the daemon knows of itself. It may be called from any goroutine at any time once clients may be served:
// while the network starts, during an upgrade, at the stop. It waits for nothing that a client or macOS could hold up.
func (d *daemon) describe() status.Status {
	now := time.Now()
	patience, cancel := context.WithTimeout(context.Background(), userNamePatience)
	defer cancel()
	user := func(uid uint32) string { return d.users.name(uid, patience.Done()) }
	clients, totals := d.server.Census()
	st := status.Status{
		Format:  status.Format,
		Now:     now.UTC(),
		Daemon:  d.describeDaemon(now),
		Network: d.describeNetwork(user),
		Clients: make([]status.Client, 0, len(clients)),
		Totals:  status.Totals{Connects: totals.Connects, Refused: totals.Refused, Unserved: d.refused.List()},
	}
	for _, i := range clients {
		st.Clients = append(st.Clients, d.describeClient(i, now, user))
	}
	st.Totals.ToNet = toNet(totals.Link, totals.Ports, totals.DropHeld, totals.Spoofed)
	st.Totals.ToClient = toClient(totals.Link, totals.Ports)
	st.Health = d.health.Problems(st)
	return st
}

func (d *daemon) describeDaemon(now time.Time) status.Daemon {
	s := status.Daemon{
		Version: compat.Version, PID: os.Getpid(), UID: os.Geteuid(), Program: d.path, Socket: absolute(d.cfg.SocketPath),
		Started: d.began.UTC(), Uptime: seconds(now.Sub(d.began)), Upgrades: d.upgrades, LogLevel: d.logs.Level(), Log: hostfs.PathOf(int(os.Stderr.Fd())),
		MaxClients: d.cfg.MaxClients, QueueSize: d.cfg.QueueSize,
	}
	if d.extras != nil {
		s.RuntimeDir = d.extras.dir.Path
	}
	if n := d.network.Load(); n != nil {
		s.StateFile = n.kept.Path()
	}
	if d.captures != nil {
		c := d.captures.Stats()
		s.Captures = status.Captures{Running: c.Running, Started: c.Started, Stalled: c.Stalled}
	}
	if ln := d.listeners[metricsSocket]; ln != nil {
		s.Metrics = ln.Addr().String()
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
func (d *daemon) describeNetwork(user func(uid uint32) string) status.Network {
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
	inner, err := lazy.result()
	if err != nil {
		n.State, n.Error = status.NetworkFailed, err.Error()
	}
	if inner == nil {
		return n
	}
	n.State = status.NetworkRunning
	describeInner(&n, inner)
	if u := n.Usernet; u != nil && u.Gateway.PID != 0 {
		u.Gateway.User = user(uint32(u.Gateway.UID))
	}
	return n
}

// describeInner tells what a network that runs says of itself.
func describeInner(n *status.Network, inner network.Network) {
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
			Wakes: s.Wakes,
		}
		if w := s.LastWake; s.Wakes > 0 {
			n.Vmnet.LastWake = &status.Wake{At: w.At.UTC(), Slept: seconds(w.Slept), Restarted: w.Restarted}
		}
		if s.LastFailure != nil {
			n.Vmnet.LastFailure = s.LastFailure.Error()
		}
	}
}

// newHealth makes what tells the daemon's problems.
func (d *daemon) newHealth() *health.Monitor {
	o := health.Options{
		Log: d.log, Status: d.describe, Addresses: freenet.System, OneInterface: d.cfg.VmnetInterfaces == compat.InterfacesOne,
	}
	switch {
	case d.cfg.DisableDHCP:
		o.DHCPOff = "--vmnet-disable-dhcp"
	case d.cfg.NetworkID != [16]byte{} && d.cfg.Mode == network.ModeHost:
		o.DHCPOff = "--vmnet-network-identifier"
	}
	return health.New(o)
}

// maxName is how long a name of a client's or of a process may be in a description, in bytes.
const maxName = 128

// describeClient is i at that time.
func (d *daemon) describeClient(i perclient.Info, now time.Time, user func(uid uint32) string) status.Client {
	w := i.Watch
	c := status.Client{
		ID: i.ID, Name: printable.Line(i.Name, maxName), Transport: i.Transport, Path: printable.Line(i.Path, compat.MaxSocketPath), FD: i.FD,
		Peer: status.Peer{PID: i.Peer.PID, Command: processName(i.Peer.PID, i.Began)}, IP: w.IP, Hostname: w.Hostname, State: i.State,
		Connected: i.Began.UTC(), Age: seconds(now.Sub(i.Began)),
		Interface: describeInterface(i),
		ToNet:     toNet(i.Link, i.Ports, i.DropHeld, i.Spoofed),
		ToClient:  toClient(i.Link, i.Ports),
		Queue:     status.Queue{Bytes: i.Link.Queued, Limit: i.QueueLimit, Stalled: seconds(i.Link.Stalled)},
		MACs:      i.Ports.MACs,
		MACMoves:  i.Ports.Moved,
		DHCP: status.ClientDHCP{
			Discovers: w.Counts.Discovers, Requests: w.Counts.Requests, Offers: w.Counts.Offers, Acks: w.Counts.Acks, Naks: w.Counts.Naks,
		},
	}
	if i.Peer.Known {
		c.Peer.Known, c.Peer.UID, c.Peer.GID, c.Peer.User = true, i.Peer.UID, i.Peer.Group(), user(i.Peer.UID)
	}
	if i.MAC != nil {
		c.MAC = i.MAC.String()
	}
	if i.Err != nil {
		c.Error = i.Err.Error()
	}
	if w.IP.IsValid() {
		c.IPSeen = w.Claimed.UTC()
	}
	if !w.Waiting.IsZero() {
		c.DHCP.Waiting = seconds(now.Sub(w.Waiting))
	}
	return c
}

func describeInterface(i perclient.Info) status.Interface {
	if i.Port == nil {
		return status.Interface{Kind: status.InterfaceNone}
	}
	f := status.Interface{
		Kind: cmp.Or(string(i.Port.Kind), status.InterfaceNone), ID: i.Port.InterfaceID, MTU: i.Port.MTU, MaxFrame: i.Port.MaxFrame,
	}
	if i.Port.MAC != nil {
		f.MAC = i.Port.MAC.String()
	}
	return f
}

// toNet is what clients sent, with what was dropped of it anywhere on its way.
func toNet(st link.Stats, ports network.PortStats, held, spoofed uint64) status.Traffic {
	return status.Traffic{Frames: st.ToNetFrames, Bytes: st.ToNetBytes, Drops: drops(ports.Drops, map[string]uint64{
		"drop_runt": st.DropRunt, "drop_long": st.DropLong, "drop_foreign": st.DropForeign, "drop_starting": held + st.DropStarting,
		"drop_spoofed": spoofed,
	})}
}

// toClient is the same for what was for clients.
func toClient(st link.Stats, ports network.PortStats) status.Traffic {
	return status.Traffic{Frames: st.ToClientFrames, Bytes: st.ToClientBytes, Drops: drops(ports.Lost, map[string]uint64{
		"drop_queue_full": st.DropQueueFull, "drop_closed": st.DropClosed, "drop_oversize": st.DropOversize,
	})}
}

// drops are those of ports and of links, by reason. Reasons of links that never were are left out.
func drops[R ~string](ports map[R]uint64, links map[string]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for reason, n := range ports {
		sum[string(reason)] += n
	}
	for reason, n := range links {
		if n > 0 {
			sum[reason] += n
		}
	}
	return sum
}
