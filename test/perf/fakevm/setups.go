// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// The transports and senders of fake VMs, as rounds has them.
const (
	stream = "stream"
	passed = "passed"
	path   = "path"

	single  = "single"
	batch   = "batch"
	offload = "offload" // the VMM's network card cuts and joins TCP segments: the fastest, with frames of the MTU
)

const (
	// etherHeader is what a frame is longer than its packet, in bytes.
	etherHeader = 14
	// The largest MTUs that relays are compared at. A stream client is never sent a frame above 32,768 bytes; by datagram 65,550
	// are the limit.
	largeStream, largeDatagram = 32000, 65000
)

// A setup is one combination of relay and traffic. Each round measures it once.
type setup struct {
	series    string
	relay     string
	transport string
	sender    string // of frames, by the VMM: single, batch or offload
	direction string
	mtu       int
	clients   int // attached
	active    int // of them with traffic; the first two measure, others are a load for them
}

// name is the set-up's name within the file.
func (s setup) name() string {
	parts := []string{s.series, s.relay}
	if s.relay != rounds.Direct {
		parts = append(parts, s.transport, s.sender)
	}
	parts = append(parts, fmt.Sprint(s.mtu))
	if s.series == SeriesGateway {
		parts = append(parts, s.direction)
	}
	if s.active > 2 {
		parts = append(parts, "loaded")
	}
	if idle := s.clients - s.active; idle > 0 {
		parts = append(parts, fmt.Sprintf("%d idle", idle))
	}
	return strings.Join(parts, " ")
}

// seldom tells that a set-up has no target and is only shown: every other round is enough.
func (s setup) seldom() bool {
	return s.relay == rounds.Old || s.relay == rounds.Direct || s.clients > s.active
}

func setups() []setup { return slices.Concat(tcpSetups(), latencySetups(), gatewaySetups()) }

// pair is two clients one of which sends to the other.
func pair(relay, transport, sender string, mtu int) setup {
	return setup{
		series: SeriesTCP, relay: relay, transport: transport, sender: sender, mtu: mtu,
		direction: rounds.ClientToClient, clients: 2, active: 2,
	}
}

func tcpSetups() []setup {
	var all []setup
	for _, mtu := range []int{1500, 9000, largeStream} {
		for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			all = append(all, pair(relay, stream, single, mtu))
		}
	}
	for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
		all = append(all, pair(relay, stream, offload, 1500))
	}
	for _, relay := range []string{rounds.Floor, rounds.Daemon} {
		all = append(all, pair(relay, stream, batch, 1500), pair(relay, path, single, 1500))
		for _, mtu := range []int{1500, largeDatagram} {
			all = append(all, pair(relay, passed, single, mtu))
		}
	}
	for _, relay := range []string{rounds.Daemon, rounds.Old} {
		s := pair(relay, stream, single, 1500)
		s.clients = 8
		all = append(all, s)
	}
	for _, mtu := range []int{1500, 9000, largeDatagram} {
		all = append(all, pair(rounds.Direct, "", "", mtu))
	}
	return all
}

// latencySetups measure round trips between two clients, alone and beside two others with a bulk transfer.
func latencySetups() []setup {
	var all []setup
	for _, clients := range []int{2, 4} {
		for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			s := pair(relay, stream, single, 1500)
			s.series, s.clients, s.active = SeriesLatency, clients, clients
			all = append(all, s)
		}
	}
	direct := pair(rounds.Direct, "", "", 1500)
	direct.series = SeriesLatency
	return append(all, direct)
}

func gatewaySetups() []setup {
	var all []setup
	for _, sender := range []string{single, offload} {
		for _, direction := range []string{rounds.ClientToHost, rounds.HostToClient} {
			for _, relay := range []string{rounds.Daemon, rounds.Gvproxy} {
				s := pair(relay, stream, sender, 1500)
				s.series, s.direction, s.clients, s.active = SeriesGateway, direction, 1, 1
				all = append(all, s)
			}
		}
	}
	return all
}

// choose returns the set-ups that the options ask for.
func choose(o Options) ([]setup, error) {
	chosen := slices.DeleteFunc(setups(), func(s setup) bool {
		return !slices.Contains(o.Series, s.series) ||
			len(o.Only) > 0 && !slices.ContainsFunc(o.Only, func(part string) bool { return strings.Contains(s.name(), part) })
	})
	if len(chosen) == 0 {
		return nil, errors.New("no set-up of these series has such a name: " + strings.Join(o.Only, ", "))
	}
	return chosen, nil
}
