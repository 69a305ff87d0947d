// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// A row is one line of the page: a figure of the daemon, mostly beside that of another set-up.
type row struct {
	key, section, text string
	metric             string // one of metrics
	subject, base      setup  // base may be none
	target             float64
}

func (r row) name() string { return r.key }

// Lengths of frames with their Ethernet header. Nothing longer than longestStream goes to a stream client: frame.MaxStreamLen,
// for the sake of Lima's driver, which loses its network on a longer frame.
const (
	shortest      = 64
	jumbo         = 9000
	longestStream = 32768
	longest       = 65550 // what a guest with TSO sends: 64 KiB and a header
)

// batch and single are frames per write of a sender.
const (
	batch  = rig.BatchFrames
	single = 1
)

// rows are all of them.
func rows() (all []row) {
	for _, s := range []struct {
		title string
		rows  []row
	}{
		{"Two stream clients", pairRows()},
		{"More clients", scalingRows()},
		{"Round trips", latencyRows()},
		{"Eight to one", fanRows()},
		{"Datagram clients", datagramRows()},
		{"Through the gateway, iperf3 between the host and a kernel behind a TAP interface", gatewayRows()},
		{"The simulated vmnet", vmnetRows()},
		{"The Mac's program, run on Linux by test/machrun", macRows()},
		{"Start, memory, idleness", restRows()},
	} {
		for _, r := range s.rows {
			r.section = s.title
			all = append(all, r)
		}
	}
	return all
}

// flow is one pair of stream clients that sends frames of 1514 bytes, among idle ones.
func flow(relay string, clients, perWrite int) setup {
	return setup{
		name: fmt.Sprintf("%s, %d clients, %d a write", relay, clients, perWrite), relay: relay,
		load: rig.Load{Clients: clients, Pairs: 1, Batch: perWrite},
	}
}

// wide is flow with as much in flight as TCP has on a fast network, more than a socket's buffers hold.
func wide(relay string, perWrite int) setup {
	s := flow(relay, 2, perWrite)
	s.name, s.load.Window = s.name+", 2,000 in flight", 2000
	return s
}

// flows are so many pairs at once, in batches.
func flows(relay string, pairs int) setup {
	return setup{name: fmt.Sprintf("%s, %d pairs", relay, pairs), relay: relay, load: rig.Load{Clients: 2 * pairs, Pairs: pairs, Batch: batch}}
}

// between is a flow in batches between two clients of these kinds.
func between(relay, kinds string) setup {
	return setup{name: relay + ", " + kinds, relay: relay, load: rig.Load{Clients: 2, Pairs: 1, Batch: batch, Kinds: kinds}}
}

// sized is a flow with frames of another length.
func sized(s setup, length int) setup {
	s.name = fmt.Sprintf("%s, %d bytes", s.name, length)
	s.load = s.load.WithFrame(length)
	return s
}

// fan is eight stream clients that send to one.
func fan(relay string, window int) setup {
	return setup{
		name: fmt.Sprintf("%s, eight to one, %d in flight", relay, window), relay: relay,
		load: rig.Load{Clients: 9, Fan: true, Batch: single, Window: window},
	}
}

// echoParts is how often round trips are measured in a round, with new processes. They depend on which cores the scheduler happens to
// put the processes on, and it seldom changes its mind within a measurement.
const echoParts = 4

// echo is a ping-pong of 64 bytes between two of so many clients; the others are idle.
func echo(relay string, clients int) setup {
	return setup{
		name: fmt.Sprintf("%s, ping among %d", relay, clients), relay: relay, parts: echoParts,
		load: rig.Load{Clients: clients, Pairs: 1, Echo: true},
	}
}

// echoBeside is a ping-pong beside a flow of 1514 byte frames between two other clients.
func echoBeside(relay string, perWrite int) setup {
	return setup{
		name: fmt.Sprintf("%s, ping beside %d a write", relay, perWrite), relay: relay, parts: echoParts,
		load: rig.Load{Clients: 4, Pairs: 2, Batch: perWrite, Echo: true},
	}
}

// idle are silent clients of these kinds.
func idle(relay, kinds string) setup {
	return setup{name: relay + ", idle " + kinds, relay: relay, load: rig.Load{Clients: len(kinds), Kinds: kinds}}
}

// resting are idle clients of a relay that is watched at length.
func resting(relay, kinds string) setup {
	s := idle(relay, kinds)
	s.name, s.rest = s.name+", at rest", true
	return s
}

func pairRows() []row {
	d, floor := flow(rig.Daemon, 2, batch), flow(rig.Floor, 2, batch)
	one, floorOne := flow(rig.Daemon, 2, single), flow(rig.Floor, 2, single)
	return []row{
		{key: "single", text: "a frame a write", metric: rate, subject: one, base: floorOne, target: 1},
		{key: "single-cpu", text: "a frame a write", metric: cpu, subject: one, base: floorOne, target: 0.9},
		{key: "single-old", text: "a frame a write", metric: rate, subject: one, base: flow(rig.Old, 2, single)},
		{key: "pair", text: "batches", metric: rate, subject: d, base: floor, target: 0.97},
		{key: "wide", text: "batches, 2,000 frames in flight", metric: rate, subject: wide(rig.Daemon, batch), base: wide(rig.Floor, batch)},
		{key: "small", text: "batches of 64 bytes", metric: cpu, subject: sized(d, shortest), base: sized(floor, shortest), target: 1.4},
		{key: "jumbo", text: "batches of 9,000 bytes", metric: cpu, subject: sized(d, jumbo), base: sized(floor, jumbo), target: 1.05},
		{key: "large", text: "batches of 32,768 bytes", metric: cpu, subject: sized(d, longestStream), base: sized(floor, longestStream), target: 1.05},
	}
}

func scalingRows() []row {
	d := func(clients, perWrite int) setup { return flow(rig.Daemon, clients, perWrite) }
	return []row{
		{key: "old8-single", text: "a pair among 6 idle, a frame a write", metric: rate, subject: d(8, single), base: flow(rig.Old, 8, single)},
		{key: "old64-single", text: "a pair among 62 idle, a frame a write", metric: rate, subject: d(64, single), base: flow(rig.Old, 64, single)},
		{key: "idle62-single", text: "a pair among 62 idle, a frame a write", metric: cpu, subject: d(64, single), base: d(2, single), target: 1.05},
		{key: "idle248", text: "a pair among 248 idle, a frame a write", metric: rate, subject: d(250, single), base: flow(rig.Floor, 250, single), target: 0.97},
		{key: "pairs4", text: "4 pairs at once", metric: rate, subject: flows(rig.Daemon, 4), base: flows(rig.Floor, 4)},
		{key: "pairs32", text: "32 pairs at once", metric: rate, subject: flows(rig.Daemon, 32), base: flows(rig.Floor, 32)},
		{key: "active32", text: "32 pairs at once", metric: cpu, subject: flows(rig.Daemon, 32), base: d(2, batch), target: 1.25},
	}
}

func fanRows() []row {
	d, floor := fan(rig.Daemon, rig.OpenLoop), fan(rig.Floor, rig.OpenLoop)
	return []row{
		{key: "fan", text: "as fast as they can", metric: rate, subject: d, base: floor, target: 0.8},
		{key: "fan-loss", text: "as fast as they can", metric: loss, subject: d, target: 12},
		{key: "fan-cpu", text: "as fast as they can", metric: cpu, subject: d, base: floor, target: 1.1},
		{key: "fan-window", text: "32 frames of each in flight", metric: rate, subject: fan(rig.Daemon, 32), base: fan(rig.Floor, 32), target: 0.95},
	}
}

func latencyRows() []row {
	d, floor := echo(rig.Daemon, 2), echo(rig.Floor, 2)
	return []row{
		{key: "rtt", text: "nothing else going on", metric: p50, subject: d, base: floor, target: 0.25},
		{key: "rtt-p99", text: "nothing else going on", metric: p99, subject: d, base: floor},
		{key: "rtt-single", text: "beside a frame a write", metric: p99, subject: echoBeside(rig.Daemon, single), base: echoBeside(rig.Floor, single), target: 1.5},
		{key: "rtt-single-flow", text: "that flow", metric: rate, subject: echoBeside(rig.Daemon, single), base: echoBeside(rig.Floor, single)},
		{key: "rtt-single-old", text: "beside a frame a write", metric: p99, subject: echoBeside(rig.Daemon, single), base: echoBeside(rig.Old, single)},
		{key: "rtt-load", text: "beside a flow in batches", metric: p99, subject: echoBeside(rig.Daemon, batch), base: echoBeside(rig.Floor, batch), target: 1.2},
		{key: "rtt-load-flow", text: "that flow", metric: rate, subject: echoBeside(rig.Daemon, batch), base: echoBeside(rig.Floor, batch)},
	}
}

// datagramRows hold a mixed pair against a floor of its own: each datagram costs the kernel about as much as some frames of a
// stream do, whatever relays them.
func datagramRows() (all []row) {
	for _, t := range []struct {
		key, text, kinds string
		target           float64
	}{
		{"passed", "passed descriptors", rig.Passed, 0.95},
		{"connected", "paths, connected", rig.Connected, 0.95},
		{"unconnected", "paths, not connected", rig.Unconnected, 0},
		{"to-passed", "stream > passed", rig.Stream + rig.Passed, 0.7},
		{"from-passed", "passed > stream", rig.Passed + rig.Stream, 0.7},
		{"to-connected", "stream > path, connected", rig.Stream + rig.Connected, 0.7},
		{"from-connected", "path, connected > stream", rig.Connected + rig.Stream, 0.7},
		{"to-path", "stream > path, not connected", rig.Stream + rig.Unconnected, 0.7},
		{"from-path", "path, not connected > stream", rig.Unconnected + rig.Stream, 0.7},
	} {
		all = append(all, row{
			key: t.key, text: t.text, metric: rate, subject: between(rig.Daemon, t.kinds), base: between(rig.Floor, t.kinds), target: t.target,
		})
	}
	d, floor := sized(between(rig.Daemon, rig.Passed), longest), sized(between(rig.Floor, rig.Passed), longest)
	return append(all, row{key: "passed-large", text: "passed descriptors, 65,550 bytes", metric: rate, subject: d, base: floor})
}

// transfer is TCP between a guest and the host.
func transfer(relay string, toGuest bool) setup {
	return setup{name: fmt.Sprintf("%s, TCP, to the guest %t", relay, toGuest), relay: relay, run: func(b *bench, ctx context.Context) (rig.Result, error) {
		return b.Transfer(ctx, relay, toGuest)
	}}
}

// gatewayRows hold the gateway against those of others. passt of Debian 12 loses much of what guests send to a TAP interface.
func gatewayRows() []row {
	down, up := transfer(rig.Daemon, true), transfer(rig.Daemon, false)
	return []row{
		{key: "down-slirp", text: "host to guest", metric: gbit, subject: down, base: transfer(rig.Slirp, true), target: 1.2},
		{key: "down-passt", text: "host to guest", metric: gbit, subject: down, base: transfer(rig.Passt, true), target: 1},
		{key: "up-gvproxy", text: "guest to host", metric: gbit, subject: up, base: transfer(rig.Gvproxy, false), target: 1.7},
		{key: "up-slirp", text: "guest to host", metric: gbit, subject: up, base: transfer(rig.Slirp, false)},
	}
}

// vmnetRows hold the daemon against a C program on the same simulator.
func vmnetRows() []row {
	const d, c = rig.DaemonVmnet, rig.VmnetC
	return []row{
		{key: "vmnet", text: "two clients, batches", metric: cpu, subject: flow(d, 2, batch), base: flow(c, 2, batch), target: 1.3},
		{key: "vmnet-single", text: "two clients, a frame a write", metric: cpu, subject: flow(d, 2, single), base: flow(c, 2, single), target: 1.5},
		{key: "vmnet-rtt", text: "round trip", metric: p50, subject: echo(d, 2), base: echo(c, 2)},
	}
}

// macRows hold the program for macOS against the one for Linux.
func macRows() []row {
	const m, d = rig.DaemonMac, rig.Daemon
	return []row{
		{key: "mac-single", text: "a frame a write", metric: cpu, subject: flow(m, 2, single), base: flow(d, 2, single)},
		{key: "mac", text: "batches", metric: cpu, subject: flow(m, 2, batch), base: flow(d, 2, batch)},
		{key: "mac-rtt", text: "round trip", metric: p50, subject: echo(m, 2), base: echo(d, 2)},
	}
}

// restRows have no counterpart.
func restRows() []row {
	const clients = 16
	streams, datagrams := strings.Repeat(rig.Stream, clients), strings.Repeat(rig.Passed+rig.Passed+rig.Connected+rig.Unconnected, clients/4)
	busy := func(kinds string, length int) setup {
		s := setup{name: fmt.Sprintf("8 busy %s, %d bytes", kinds, length), relay: rig.Daemon, load: rig.Load{Clients: 8, Pairs: 4, Batch: batch, Kinds: kinds}}
		s.load = s.load.WithFrame(length)
		return s
	}
	many := func(kind string) setup { return idle(rig.Daemon, strings.Repeat(kind, 64)) }
	return []row{
		{key: "start", text: "from the start until a client is served", metric: startTime, subject: setup{name: "start", run: (*bench).start}, target: 8},
		{key: "mem-one", text: "anonymous memory, 1 idle client", metric: anonymous, subject: idle(rig.Daemon, rig.Stream)},
		{key: "mem-all", text: "all resident memory, 1 idle client", metric: resident, subject: idle(rig.Daemon, rig.Stream)},
		{key: "mem-stream", text: "anonymous memory, 64 idle stream clients", metric: anonymous, subject: many(rig.Stream)},
		{key: "mem-passed", text: "anonymous memory, 64 idle passed descriptors", metric: anonymous, subject: many(rig.Passed)},
		{key: "mem-path", text: "anonymous memory, 64 idle paths", metric: anonymous, subject: many(rig.Connected)},
		{key: "mem-busy", text: "anonymous memory, 8 busy stream clients", metric: anonymous, subject: busy(rig.Stream, 1514), target: 25},
		{key: "mem-busy-passed", text: "the same, passed descriptors, 65,550 bytes", metric: anonymous, subject: busy(rig.Passed, longest), target: 25},
		{key: "idle", text: "16 idle stream clients", metric: wakes, subject: resting(rig.Daemon, streams), target: nothing},
		{key: "idle-cpu", text: "16 idle stream clients", metric: restCPU, subject: resting(rig.Daemon, streams), target: nothing},
		{key: "idle-dgram", text: "16 idle datagram clients", metric: wakes, subject: resting(rig.Daemon, datagrams)},
		{key: "idle-vmnet", text: "16 idle clients on simulated vmnet", metric: wakes, subject: resting(rig.DaemonBridged, streams), target: 5},
	}
}

// nothing is a target that one context switch in the time of an idle set-up misses.
const nothing = 0.01
