// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// maxName is how long a name of a client's or of a process may be in a description, in bytes.
const maxName = 128

// describeClient is i at that time.
func (d *daemon) describeClient(i perclient.Info, now time.Time) status.Client {
	w := i.Watch
	c := status.Client{
		ID: i.ID, Name: printable.Line(i.Name, maxName), Transport: i.Transport, Path: printable.Line(i.Path, compat.MaxSocketPath), FD: i.FD,
		Peer: d.describePeer(i), IP: w.IP, Hostname: w.Hostname, State: i.State,
		Connected: i.Began.UTC(), Age: seconds(now.Sub(i.Began)),
		Interface: describeInterface(i),
		ToNet:     toNet(i.Link, i.Ports, i.DropHeld, i.Spoofed),
		ToClient:  toClient(i.Link, i.Ports),
		Queue:     status.Queue{Bytes: i.Link.Queued, Limit: i.QueueLimit, Stalled: seconds(i.Link.Stalled)},
		MACs:      i.MACs,
		MACMoves:  i.Ports.Moved,
		DHCP: status.ClientDHCP{
			Discovers: w.Counts.Discovers, Requests: w.Counts.Requests, Offers: w.Counts.Offers, Acks: w.Counts.Acks, Naks: w.Counts.Naks,
		},
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

// describePeer names the user and the process at the other end, as far as that is known.
func (d *daemon) describePeer(i perclient.Info) status.Peer {
	p := status.Peer{Known: i.Peer.Known, UID: i.Peer.UID, GID: i.Peer.Group(), PID: i.Peer.PID}
	if !p.Known {
		return status.Peer{PID: i.Peer.PID, Command: d.self.processes.name(i.ID, i.Peer.PID, i.Began)}
	}
	p.User = d.self.users.name(p.UID)
	p.Command = d.self.processes.name(i.ID, p.PID, i.Began)
	return p
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
func toNet(st link.Stats, ports perclient.PortTotals, held, spoofed uint64) status.Traffic {
	t := status.Traffic{Frames: st.ToNetFrames, Bytes: st.ToNetBytes, Drops: map[string]uint64{}}
	for reason, n := range ports.Drops {
		t.Drops[string(reason)] += n
	}
	addDrops(t.Drops, "drop_runt", st.DropRunt)
	addDrops(t.Drops, "drop_long", st.DropLong)
	addDrops(t.Drops, "drop_foreign", st.DropForeign)
	addDrops(t.Drops, "drop_starting", held+st.DropStarting)
	addDrops(t.Drops, "drop_spoofed", spoofed)
	return t
}

// toClient is the same for what was for clients.
func toClient(st link.Stats, ports perclient.PortTotals) status.Traffic {
	t := status.Traffic{Frames: st.ToClientFrames, Bytes: st.ToClientBytes, Drops: map[string]uint64{}}
	for reason, n := range ports.Lost {
		t.Drops[string(reason)] += n
	}
	addDrops(t.Drops, "drop_queue_full", st.DropQueueFull)
	addDrops(t.Drops, "drop_closed", st.DropClosed)
	addDrops(t.Drops, "drop_oversize", st.DropOversize)
	return t
}

// addDrops adds n to what was dropped for that reason. Reasons that never were are left out.
func addDrops(drops map[string]uint64, reason string, n uint64) {
	if n > 0 {
		drops[reason] += n
	}
}
