// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// prefix of every name of ours.
const prefix = "socket_vmnet2_"

// A family is all series of one name.
type family struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
	desc       *prometheus.Desc
}

// families are all of ours.
var families []*family

func newFamily(kind prometheus.ValueType, name, help string, labels []string) *family {
	f := &family{name: prefix + name, help: help, labels: labels, kind: kind}
	f.desc = prometheus.NewDesc(f.name, help, labels, nil)
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, name, help, labels)
}

// perClient are the labels of a client's series.
func perClient(more ...string) []string { return append([]string{"client", "name", "mac"}, more...) }

var (
	buildInfo = gauge("build_info", "The program that runs. Always 1.", "version")
	startTime = gauge("start_time_seconds", "When the daemon was started, in seconds since 1970. An upgrade in place does not change it.")
	upgrades  = counter("upgrades_total", "Upgrades in place since the start.")
	problems  = gauge("health_problems", "Problems that socket_vmnet2 status tells now.", "code", "severity")

	captures        = gauge("captures", "Captures that run.")
	capturesStarted = counter("captures_started_total", "Captures that have begun since the program started.")
	capturesStalled = counter("captures_stalled_total", "Captures that were ended because their readers took nothing.")

	networkInfo = gauge("network_info", "How the network was set up. Always 1.", "backend", "mode", "subnet", "gateway", "socket")
	networkUp   = gauge("network_up", "Whether the network runs. 0 while it starts, and when it has failed.")

	clientsNow     = gauge("clients", "Clients that are connected.")
	clientsLimit   = gauge("clients_limit", "Clients that may be connected at once.")
	clientConnects = counter("client_connects_total", "Clients that have connected.")
	clientsRefused = counter("clients_refused_total", "Clients that were refused because there were too many.")

	allReceiveBytes    = counter("network_receive_bytes_total", "Bytes of the frames to all guests, those that have left included.")
	allReceivePackets  = counter("network_receive_packets_total", "Frames to all guests, those that have left included.")
	allReceiveDrop     = counter("network_receive_drop_total", "Frames to all guests that were dropped, those that have left included.", "reason")
	allTransmitBytes   = counter("network_transmit_bytes_total", "Bytes of the frames from all guests, those that have left included.")
	allTransmitPackets = counter("network_transmit_packets_total", "Frames from all guests, those that have left included.")
	allTransmitDrop    = counter("network_transmit_drop_total", "Frames from all guests that were dropped, those that have left included.", "reason")

	clientInfo            = gauge("client_info", "A client, how it is connected, and what state it is in. Always 1.", perClient("transport", "state", "interface")...)
	clientReceiveBytes    = counter("client_receive_bytes_total", "Bytes of the frames to the guest.", perClient()...)
	clientReceivePackets  = counter("client_receive_packets_total", "Frames to the guest.", perClient()...)
	clientReceiveDrop     = counter("client_receive_drop_total", "Frames to the guest that were dropped.", perClient("reason")...)
	clientTransmitBytes   = counter("client_transmit_bytes_total", "Bytes of the frames from the guest.", perClient()...)
	clientTransmitPackets = counter("client_transmit_packets_total", "Frames from the guest.", perClient()...)
	clientTransmitDrop    = counter("client_transmit_drop_total", "Frames from the guest that were dropped.", perClient("reason")...)
	clientMoves           = counter("client_mac_moves_total", "MAC addresses that came to the client from another one.", perClient()...)
	clientQueue           = gauge("client_queue_bytes", "What waits because the client is busy.", perClient()...)
	clientStalled         = gauge("client_stalled_seconds", "For how long the client has taken nothing although something waits.", perClient()...)
	clientWaiting         = gauge("client_dhcp_waiting_seconds", "For how long the guest has been asking for an address without an answer.", perClient()...)

	dhcpPool       = gauge("dhcp_pool_addresses", "Addresses that guests without a reservation can get. Not known of vmnet's own server.")
	dhcpLeased     = gauge("dhcp_leased_addresses", "Addresses of the pool that no other guest can get now. Not known of vmnet's own server.")
	dhcpLeases     = gauge("dhcp_leases", "Leases of the embedded network, those of reserved addresses included.")
	dhcpUnanswered = counter("dhcp_unanswered_total", "DHCP requests that the embedded network did not answer.", "reason")

	usernetFlows    = gauge("usernet_flows", "Connections through the gateway of the embedded network.", "protocol")
	usernetDrop     = counter("usernet_drop_total", "Frames that the gateway of the embedded network dropped.", "reason")
	usernetForwards = gauge("usernet_forwards", "Forwarded ports of the embedded network, by whether they took what came last.", "state")

	vmnetInterfaces = gauge("vmnet_clients", "Clients with an interface of their own, and those that share one.", "interface")
	vmnetStarts     = counter("vmnet_interface_starts_total", "Interfaces that vmnet.framework has started.")
	vmnetFailures   = counter("vmnet_interface_start_failures_total", "Interfaces that vmnet.framework has refused to start.")
	vmnetRestarts   = counter("vmnet_interface_restarts_total", "Interfaces that were started again after they had failed.")
	vmnetPromoted   = counter("vmnet_clients_promoted_total", "Clients that came from a shared interface to one of their own.")
	vmnetExhausted  = counter("vmnet_exhausted_packets_total", "Frames that vmnet.framework had no buffer for.")
)

// maxText is the longest value of a label in bytes.
const maxText = 128

// clean makes what may come from a guest or a system a value of a label: printable UTF-8, not too long.
func clean(s string) string { return printable.Line(s, maxText) }

// byReason is drops with shorter reasons: what all have in common says the metric's name already.
func byReason(drops map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(drops))
	for reason, n := range drops {
		out[clean(strings.TrimPrefix(reason, "drop_"))] += n
	}
	return out
}
