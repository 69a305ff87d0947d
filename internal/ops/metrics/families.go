// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/socket-vmnet2/socket_vmnet2/internal/status"

// reason is the label of what was dropped or refused.
var reason = []string{"reason"}

// families are all of ours.
var families = []*family{
	gauge("build_info", "The program that runs. Always 1.", []string{"version"}, func(s *scrape, put put) { put(1, s.Daemon.Version) }),
	gauge("start_time_seconds", "When the daemon was started, in seconds since 1970. An upgrade in place does not change it.", nil, startTime),
	counter("upgrades_total", "Upgrades in place since the start.", nil, of(func(s *scrape) int { return s.Daemon.Upgrades })),
	gauge("health_problems", "Problems that socket_vmnet2 status tells now.", []string{"code", "severity"}, problems),

	gauge("captures", "Captures that run.", nil, of(func(s *scrape) int { return s.Daemon.Captures.Running })),
	counter("captures_started_total", "Captures that have begun since the program started.", nil,
		of(func(s *scrape) uint64 { return s.Daemon.Captures.Started })),
	counter("captures_stalled_total", "Captures that were ended because their readers took nothing.", nil,
		of(func(s *scrape) uint64 { return s.Daemon.Captures.Stalled })),

	gauge("network_info", "How the network was set up. Always 1.", []string{"backend", "mode", "subnet", "gateway", "socket"}, networkInfo),
	gauge("network_up", "Whether the network runs. 0 while it starts, and when it has failed.", nil,
		of(func(s *scrape) int { return map[bool]int{true: 1}[s.Network.State == status.NetworkRunning] })),

	gauge("clients", "Clients that are connected.", nil, of(func(s *scrape) int { return len(s.Clients) })),
	gauge("clients_limit", "Clients that may be connected at once.", nil, of(func(s *scrape) int { return s.Daemon.MaxClients })),
	counter("client_connects_total", "Clients that have connected.", nil, of(func(s *scrape) uint64 { return s.Totals.Connects })),
	counter("clients_refused_total", "Clients that were refused because there were too many.", nil,
		of(func(s *scrape) uint64 { return s.Totals.Refused })),

	counter("network_receive_bytes_total", "Bytes of the frames to all guests, those that have left included.", nil,
		of(func(s *scrape) uint64 { return s.Totals.ToClient.Bytes })),
	counter("network_receive_packets_total", "Frames to all guests, those that have left included.", nil,
		of(func(s *scrape) uint64 { return s.Totals.ToClient.Frames })),
	counter("network_receive_drop_total", "Frames to all guests that were dropped, those that have left included.", reason,
		func(s *scrape, put put) { put.reasons(s.Totals.ToClient.Drops) }),
	counter("network_transmit_bytes_total", "Bytes of the frames from all guests, those that have left included.", nil,
		of(func(s *scrape) uint64 { return s.Totals.ToNet.Bytes })),
	counter("network_transmit_packets_total", "Frames from all guests, those that have left included.", nil,
		of(func(s *scrape) uint64 { return s.Totals.ToNet.Frames })),
	counter("network_transmit_drop_total", "Frames from all guests that were dropped, those that have left included.", reason,
		func(s *scrape, put put) { put.reasons(s.Totals.ToNet.Drops) }),

	gauge("client_info", "A client, how it is connected, and what state it is in. Always 1.", perClient("transport", "state", "interface"),
		each(func(c *client, put put) { put(1, c.Transport, c.State, c.Interface.Kind) })),
	counter("client_receive_bytes_total", "Bytes of the frames to the guest.", perClient(),
		eachOf(func(c *client) uint64 { return c.ToClient.Bytes })),
	counter("client_receive_packets_total", "Frames to the guest.", perClient(), eachOf(func(c *client) uint64 { return c.ToClient.Frames })),
	counter("client_receive_drop_total", "Frames to the guest that were dropped.", perClient("reason"),
		each(func(c *client, put put) { put.reasons(c.ToClient.Drops) })),
	counter("client_transmit_bytes_total", "Bytes of the frames from the guest.", perClient(),
		eachOf(func(c *client) uint64 { return c.ToNet.Bytes })),
	counter("client_transmit_packets_total", "Frames from the guest.", perClient(), eachOf(func(c *client) uint64 { return c.ToNet.Frames })),
	counter("client_transmit_drop_total", "Frames from the guest that were dropped.", perClient("reason"),
		each(func(c *client, put put) { put.reasons(c.ToNet.Drops) })),
	counter("client_mac_moves_total", "MAC addresses that came to the client from another one.", perClient(),
		eachOf(func(c *client) uint64 { return c.MACMoves })),
	gauge("client_queue_bytes", "What waits because the client is busy.", perClient(),
		eachOf(func(c *client) float64 { return float64(c.Queue.Bytes) })),
	gauge("client_stalled_seconds", "For how long the client has taken nothing although something waits.", perClient(),
		eachOf(func(c *client) float64 { return c.Queue.Stalled })),
	gauge("client_dhcp_waiting_seconds", "For how long the guest has been asking for an address without an answer.", perClient(),
		eachOf(func(c *client) float64 { return c.DHCP.Waiting })),

	gauge("dhcp_pool_addresses", "Addresses that guests without a reservation can get. Not known of vmnet's own server.", nil,
		func(s *scrape, put put) { put.pool(s, s.Network.DHCP.Size) }),
	gauge("dhcp_leased_addresses", "Addresses of the pool that no other guest can get now. Not known of vmnet's own server.", nil,
		func(s *scrape, put put) { put.pool(s, s.Network.DHCP.Leased) }),
	gauge("dhcp_leases", "Leases of the embedded network, those of reserved addresses included.", nil, leases),
	counter("dhcp_unanswered_total", "DHCP requests that the embedded network did not answer.", reason,
		func(s *scrape, put put) { put.reasons(s.Network.DHCP.Unanswered) }),

	gauge("usernet_flows", "Connections through the gateway of the embedded network.", []string{"protocol"}, flows),
	counter("usernet_drop_total", "Frames that the gateway of the embedded network dropped.", reason,
		func(s *scrape, put put) { put.reasons(s.Network.Usernet.Drops) }),
	gauge("usernet_forwards", "Forwarded ports of the embedded network, by whether they took what came last.", []string{"state"},
		forwards),

	gauge("vmnet_clients", "Clients with an interface of their own, and those that share one.", []string{"interface"}, interfaces),
	counter("vmnet_interface_starts_total", "Interfaces that vmnet.framework has started.", nil,
		of(func(s *scrape) uint64 { return s.Network.Vmnet.Starts })),
	counter("vmnet_interface_start_failures_total", "Interfaces that vmnet.framework has refused to start.", nil,
		of(func(s *scrape) uint64 { return s.Network.Vmnet.StartFailures })),
	counter("vmnet_interface_restarts_total", "Interfaces that were started again after they had failed.", nil,
		of(func(s *scrape) uint64 { return s.Network.Vmnet.Restarts })),
	counter("vmnet_clients_promoted_total", "Clients that came from a shared interface to one of their own.", nil,
		of(func(s *scrape) uint64 { return s.Network.Vmnet.Promoted })),
	counter("vmnet_exhausted_packets_total", "Frames that vmnet.framework had no buffer for.", nil,
		of(func(s *scrape) uint64 { return s.Network.Vmnet.Exhausted })),
}

func startTime(s *scrape, put put) {
	if !s.Daemon.Started.IsZero() {
		put(float64(s.Daemon.Started.UnixMilli()) / 1000)
	}
}

func problems(s *scrape, put put) {
	found := map[[2]string]int{}
	for _, p := range s.Health {
		found[[2]string{clean(p.Code), clean(p.Severity)}]++
	}
	for k, n := range found {
		put(float64(n), k[0], k[1])
	}
}

func networkInfo(s *scrape, put put) {
	n := &s.Network
	subnet, gateway := "", ""
	if n.Subnet.IsValid() {
		subnet = n.Subnet.String()
	}
	if n.Gateway.IsValid() {
		gateway = n.Gateway.String()
	}
	put(1, n.Backend, n.Mode, subnet, gateway, s.Daemon.Socket)
}

// pool adds n, which is known of the embedded network's server only.
func (put put) pool(s *scrape, n int) {
	if s.Network.DHCP.Size > 0 {
		put(float64(n))
	}
}

func leases(s *scrape, put put) {
	if s.Network.Usernet != nil {
		put(float64(len(s.Network.DHCP.Leases)))
	}
}

func flows(s *scrape, put put) {
	put(float64(s.Network.Usernet.TCPFlows), "tcp")
	put(float64(s.Network.Usernet.UDPFlows), "udp")
}

func forwards(s *scrape, put put) {
	n := map[bool]int{}
	for _, f := range s.Network.Usernet.Forwards {
		n[f.Error == ""]++
	}
	put(float64(n[true]), "ok")
	put(float64(n[false]), "failing")
}

func interfaces(s *scrape, put put) {
	put(float64(s.Network.Vmnet.Own), status.InterfaceOwn)
	put(float64(s.Network.Vmnet.Shared), status.InterfaceShared)
}
