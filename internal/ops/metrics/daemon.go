// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

func (o output) daemon(st *status.Status) {
	o.flag(buildInfo, true, st.Daemon.Version)
	if !st.Daemon.Started.IsZero() {
		o.put(startTime, float64(st.Daemon.Started.UnixMilli())/1000)
	}
	o.count(upgrades, uint64(max(0, st.Daemon.Upgrades)))
	c := &st.Daemon.Captures
	o.put(captures, float64(c.Running))
	o.count(capturesStarted, c.Started)
	o.count(capturesStalled, c.Stalled)
	type kind struct{ code, severity string }
	found := map[kind]int{}
	for _, p := range st.Health {
		found[kind{clean(p.Code), clean(p.Severity)}]++
	}
	for k, n := range found {
		o.put(problems, float64(n), k.code, k.severity)
	}
	n := &st.Network
	subnet, gateway := "", ""
	if n.Subnet.IsValid() {
		subnet = n.Subnet.String()
	}
	if n.Gateway.IsValid() {
		gateway = n.Gateway.String()
	}
	o.flag(networkInfo, true, n.Backend, n.Mode, subnet, gateway, st.Daemon.Socket)
	o.flag(networkUp, n.State == status.NetworkRunning)
}

func (o output) totals(st *status.Status) {
	t := &st.Totals
	o.put(clientsNow, float64(len(st.Clients)))
	o.put(clientsLimit, float64(st.Daemon.MaxClients))
	o.count(clientConnects, t.Connects)
	o.count(clientsRefused, t.Refused)
	o.count(allReceiveBytes, t.ToClient.Bytes)
	o.count(allReceivePackets, t.ToClient.Frames)
	o.reasons(allReceiveDrop, t.ToClient.Drops)
	o.count(allTransmitBytes, t.ToNet.Bytes)
	o.count(allTransmitPackets, t.ToNet.Frames)
	o.reasons(allTransmitDrop, t.ToNet.Drops)
}

func (o output) network(n *status.Network) {
	if d := n.DHCP; d != nil {
		if d.Size > 0 {
			o.put(dhcpPool, float64(d.Size))
			o.put(dhcpLeased, float64(d.Leased))
		}
		if n.Usernet != nil {
			o.put(dhcpLeases, float64(len(d.Leases)))
		}
		o.reasons(dhcpUnanswered, d.Unanswered)
	}
	if u := n.Usernet; u != nil {
		o.usernet(u)
	}
	if v := n.Vmnet; v != nil {
		o.vmnet(v)
	}
}

func (o output) usernet(u *status.Usernet) {
	o.put(usernetFlows, float64(u.TCPFlows), "tcp")
	o.put(usernetFlows, float64(u.UDPFlows), "udp")
	o.reasons(usernetDrop, u.Drops)
	failing := 0
	for _, f := range u.Forwards {
		if f.Error != "" {
			failing++
		}
	}
	o.put(usernetForwards, float64(len(u.Forwards)-failing), "ok")
	o.put(usernetForwards, float64(failing), "failing")
}

func (o output) vmnet(v *status.Vmnet) {
	o.put(vmnetInterfaces, float64(v.Own), status.InterfaceOwn)
	o.put(vmnetInterfaces, float64(v.Shared), status.InterfaceShared)
	o.count(vmnetStarts, v.Starts)
	o.count(vmnetFailures, v.StartFailures)
	o.count(vmnetRestarts, v.Restarts)
	o.count(vmnetPromoted, v.Promoted)
	o.count(vmnetExhausted, v.Exhausted)
}
