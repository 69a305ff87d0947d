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
	stream    = "stream"
	passed    = "passed"
	path      = "path"
	connected = "connected"

	single = "single"
	batch  = "batch"
)

// etherHeader is what a frame is longer than its packet, in bytes.
const etherHeader = 14

// A setup is one combination of relay and traffic. Each round measures it once.
type setup struct {
	series    string
	relay     string
	transport string
	sender    string // of frames, by the VMM: single or batch
	direction string
	mtu       int
	clients   int  // attached
	loaded    bool // latency: beside a bulk transfer
}

// name is the set-up's name within the file.
func (s setup) name() string {
	parts := []string{s.series, s.relay}
	if s.relay != rounds.Direct {
		parts = append(parts, s.transport, s.sender)
	}
	parts = append(parts, fmt.Sprint(s.mtu))
	switch {
	case s.series == SeriesGateway:
		parts = append(parts, s.direction)
	case s.loaded:
		parts = append(parts, "beside a bulk transfer")
	case s.clients > 2:
		parts = append(parts, fmt.Sprintf("%d idle", s.clients-2))
	}
	return strings.Join(parts, " ")
}

// active is how many clients have traffic.
func (s setup) active() int {
	if s.series == SeriesGateway {
		return 1
	}
	return 2
}

func setups() []setup {
	return slices.Concat(tcpSetups(), latencySetups(), gatewaySetups())
}

func tcpSetups() (all []setup) {
	pair := setup{series: SeriesTCP, transport: stream, sender: single, direction: rounds.ClientToClient, clients: 2}
	for _, mtu := range []int{1500, 9000, 65000} {
		for _, relay := range []string{rounds.Direct, rounds.Floor, rounds.Daemon, rounds.Old} {
			s := pair
			s.mtu, s.relay = mtu, relay
			all = append(all, s)
		}
	}
	return all
}

func latencySetups() (all []setup) { return nil }

func gatewaySetups() (all []setup) {
	for _, direction := range []string{rounds.ClientToHost, rounds.HostToClient} {
		for _, relay := range []string{rounds.Daemon, rounds.Gvproxy} {
			all = append(all, setup{
				series: SeriesGateway, relay: relay, transport: stream, sender: single, direction: direction, mtu: 1500, clients: 1,
			})
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
