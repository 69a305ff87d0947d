// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// prefix of every name of ours.
const prefix = "socket_vmnet2_"

// Labels of several families.
var (
	reason       = []string{"reason"} // of what was dropped or refused
	perClient    = []string{"client", "name", "mac"}
	clientReason = []string{"client", "name", "mac", "reason"}
)

// A family is all series of one name. It is a counter if that ends in _total, else a gauge.
type family struct {
	name, help string // the name is without prefix
	labels     []string
}

// families are all of ours.
var families = []family{
	{"build_info", "The program that runs. Always 1.", []string{"version"}},
	{"start_time_seconds", "When the daemon was started, in seconds since 1970. An upgrade in place does not change it.", nil},
	{"upgrades_total", "Upgrades in place since the start.", nil},
	{"health_problems", "Problems that socket_vmnet2 status tells now.", []string{"code", "severity"}},
	{"captures", "Captures that run.", nil},
	{"captures_started_total", "Captures that have begun since the program started.", nil},
	{"captures_stalled_total", "Captures that were ended because their readers took nothing.", nil},
	{"network_info", "How the network was set up. Always 1.", []string{"backend", "mode", "subnet", "gateway", "socket"}},
	{"network_up", "Whether the network runs. 0 while it starts, and when it has failed.", nil},
	{"clients", "Clients that are connected.", nil},
	{"clients_limit", "Clients that may be connected at once.", nil},
	{"client_connects_total", "Clients that have connected.", nil},
	{"clients_refused_total", "Clients that were refused because there were too many.", nil},
	{"refusals_total", "Datagrams that were refused.", reason},
	{"network_receive_bytes_total", "Bytes of the frames to all guests, those that have left included.", nil},
	{"network_receive_packets_total", "Frames to all guests, those that have left included.", nil},
	{"network_receive_drop_total", "Frames to all guests that were dropped, those that have left included.", reason},
	{"network_transmit_bytes_total", "Bytes of the frames from all guests, those that have left included.", nil},
	{"network_transmit_packets_total", "Frames from all guests, those that have left included.", nil},
	{"network_transmit_drop_total", "Frames from all guests that were dropped, those that have left included.", reason},
	{"client_info", "A client, how it is connected, and what state it is in. Always 1.", []string{"client", "name", "mac", "transport", "state", "interface"}},
	{"client_receive_bytes_total", "Bytes of the frames to the guest.", perClient},
	{"client_receive_packets_total", "Frames to the guest.", perClient},
	{"client_receive_drop_total", "Frames to the guest that were dropped.", clientReason},
	{"client_transmit_bytes_total", "Bytes of the frames from the guest.", perClient},
	{"client_transmit_packets_total", "Frames from the guest.", perClient},
	{"client_transmit_drop_total", "Frames from the guest that were dropped.", clientReason},
	{"client_mac_moves_total", "MAC addresses that came to the client from another one.", perClient},
	{"client_queue_bytes", "What waits because the client is busy.", perClient},
	{"client_stalled_seconds", "For how long the client has taken nothing although something waits.", perClient},
	{"client_dhcp_waiting_seconds", "For how long the guest has been asking for an address without an answer.", perClient},
	{"dhcp_pool_addresses", "Addresses that guests without a reservation can get. Not known of vmnet's own server.", nil},
	{"dhcp_leased_addresses", "Addresses of the pool that no other guest can get now. Not known of vmnet's own server.", nil},
	{"dhcp_leases", "Leases of the embedded network, those of reserved addresses included.", nil},
	{"dhcp_unanswered_total", "DHCP requests that the embedded network did not answer.", reason},
	{"usernet_flows", "Connections through the gateway of the embedded network.", []string{"protocol"}},
	{"usernet_drop_total", "Frames that the gateway of the embedded network dropped.", reason},
	{"usernet_forwards", "Forwarded ports of the embedded network, by whether they took what came last.", []string{"state"}},
	{"vmnet_clients", "Clients with an interface of their own, and those that share one.", []string{"interface"}},
	{"vmnet_interface_starts_total", "Interfaces that vmnet.framework has started.", nil},
	{"vmnet_interface_start_failures_total", "Interfaces that vmnet.framework has refused to start.", nil},
	{"vmnet_interface_restarts_total", "Interfaces that were started again after they had failed.", nil},
	{"vmnet_wakes_total", "Times that the host woke up from sleep and the interfaces were looked at.", nil},
	{"vmnet_clients_promoted_total", "Clients that came from a shared interface to one of their own.", nil},
	{"vmnet_exhausted_packets_total", "Frames that vmnet.framework had no buffer for.", nil},
}

// An output takes the series of one scrape.
type output struct {
	descs map[string]*prometheus.Desc // by the family's name
	ch    chan<- prometheus.Metric
}

// put adds a series of a family. Labels may come from guests.
func put[N int | uint64 | float64](o output, family string, v N, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(family, "_total") {
		kind = prometheus.CounterValue
	}
	for i, l := range labels {
		labels[i] = clean(l)
	}
	o.ch <- prometheus.MustNewConstMetric(o.descs[family], kind, float64(v), labels...)
}

// reasons adds a series for each reason of drops, without what all have in common, which says the metric's name already. Reasons that
// look alike are one.
func (o output) reasons(family string, drops map[string]uint64, labels ...string) {
	sums := make(map[string]uint64, len(drops))
	for reason, n := range drops {
		sums[clean(strings.TrimPrefix(reason, "drop_"))] += n
	}
	for reason, n := range sums {
		put(o, family, n, append(slices.Clip(labels), reason)...)
	}
}

// maxText is the longest value of a label in bytes.
const maxText = 128

// clean makes what may come from a guest or a system a value of a label: printable UTF-8, not too long.
func clean(s string) string { return printable.Line(s, maxText) }

// status adds all but the clients' own series.
func (o output) status(s *status.Status) {
	d, n := &s.Daemon, &s.Network
	put(o, "build_info", 1, d.Version)
	if !d.Started.IsZero() {
		put(o, "start_time_seconds", float64(d.Started.UnixMilli())/1000)
	}
	put(o, "upgrades_total", d.Upgrades)
	found := map[[2]string]int{}
	for _, p := range s.Health {
		found[[2]string{clean(p.Code), clean(p.Severity)}]++
	}
	for k, n := range found {
		put(o, "health_problems", n, k[0], k[1])
	}
	put(o, "captures", d.Captures.Running)
	put(o, "captures_started_total", d.Captures.Started)
	put(o, "captures_stalled_total", d.Captures.Stalled)
	put(o, "network_info", 1, n.Backend, n.Mode, printable.Valid(n.Subnet), printable.Valid(n.Gateway), d.Socket)
	put(o, "network_up", map[bool]int{true: 1}[n.State == status.NetworkRunning])
	put(o, "clients", len(s.Clients))
	put(o, "clients_limit", d.MaxClients)
	put(o, "client_connects_total", s.Totals.Connects)
	put(o, "clients_refused_total", s.Totals.Refused)
	for _, r := range s.Totals.Unserved {
		put(o, "refusals_total", r.Count, r.Reason)
	}
	o.traffic("network", &s.Totals.ToClient, &s.Totals.ToNet)
}

// traffic adds what went to guests and what came from them.
func (o output) traffic(whose string, toClient, toNet *status.Traffic, labels ...string) {
	for way, t := range map[string]*status.Traffic{"_receive_": toClient, "_transmit_": toNet} {
		put(o, whose+way+"bytes_total", t.Bytes, labels...)
		put(o, whose+way+"packets_total", t.Frames, labels...)
		o.reasons(whose+way+"drop_total", t.Drops, labels...)
	}
}

// client adds the series of one client. labels are those that all of them have.
func (o output) client(c *status.Client, labels ...string) {
	put(o, "client_info", 1, append(slices.Clip(labels), c.Transport, c.State, c.Interface.Kind)...)
	o.traffic("client", &c.ToClient, &c.ToNet, labels...)
	put(o, "client_mac_moves_total", c.MACMoves, labels...)
	put(o, "client_queue_bytes", c.Queue.Bytes, labels...)
	put(o, "client_stalled_seconds", c.Queue.Stalled, labels...)
	put(o, "client_dhcp_waiting_seconds", c.DHCP.Waiting, labels...)
}

// network adds what only some networks have.
func (o output) network(n *status.Network) {
	if d := n.DHCP; d != nil {
		if d.Size > 0 { // it is known of the embedded network's server only
			put(o, "dhcp_pool_addresses", d.Size)
			put(o, "dhcp_leased_addresses", d.Leased)
		}
		if n.Usernet != nil {
			put(o, "dhcp_leases", len(d.Leases))
		}
		o.reasons("dhcp_unanswered_total", d.Unanswered)
	}
	if u := n.Usernet; u != nil {
		put(o, "usernet_flows", u.TCPFlows, "tcp")
		put(o, "usernet_flows", u.UDPFlows, "udp")
		o.reasons("usernet_drop_total", u.Drops)
		took := map[bool]int{}
		for _, f := range u.Forwards {
			took[f.Error == ""]++
		}
		put(o, "usernet_forwards", took[true], "ok")
		put(o, "usernet_forwards", took[false], "failing")
	}
	if v := n.Vmnet; v != nil {
		put(o, "vmnet_clients", v.Own, status.InterfaceOwn)
		put(o, "vmnet_clients", v.Shared, status.InterfaceShared)
		put(o, "vmnet_interface_starts_total", v.Starts)
		put(o, "vmnet_interface_start_failures_total", v.StartFailures)
		put(o, "vmnet_interface_restarts_total", v.Restarts)
		put(o, "vmnet_wakes_total", v.Wakes)
		put(o, "vmnet_clients_promoted_total", v.Promoted)
		put(o, "vmnet_exhausted_packets_total", v.Exhausted)
	}
}
