// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// A target is what a figure is held against.
type target struct {
	id, text string
	metric   figures.Metric
	subject  figures.Key
	when     func(k figures.Key) bool        // narrows the subject further, if not nil
	base     func(k figures.Key) figures.Key // what it is divided by; nil if the figure itself counts
	limit    float64
	atMost   bool
	rounds   int // that are wanted where the best decides; 0 for medians
}

// to is the same set-up with another relay.
func to(relay string) func(figures.Key) figures.Key {
	return func(k figures.Key) figures.Key { k.Relay = relay; return k }
}

// alone is the same relay with one pair and nobody else.
func alone(k figures.Key) figures.Key {
	k.Clients, k.Active, k.Setup = 2, 2, ""
	return k
}

// manyRounds are wanted where the best round decides, and startRounds where it is about starting.
const (
	manyRounds  = 9
	startRounds = 10
)

// targets are those of the project, in the order of the page.
var targets = slices.Concat(
	[]target{
		{
			id: "floor", text: "two stream clients, rate, of the floor's", metric: figures.Rate,
			subject: figures.Key{Series: "pair", Relay: rounds.Daemon, Sender: "batch", Transport: "stream", Frame: 1514},
			base:    to(rounds.Floor), limit: 0.95, rounds: manyRounds,
		},
		{
			id: "short", text: "the shortest frames, CPU per frame, of the floor's", metric: figures.CPU,
			subject: figures.Key{Series: "sizes", Relay: rounds.Daemon, Transport: "stream", Frame: 64},
			base:    to(rounds.Floor), limit: 1.4, atMost: true,
		},
	},
	oldTargets("single", 2.5, 10, 80), oldTargets("batch", 5, 35, 300),
	[]target{
		{
			id: "pairs", text: "32 active pairs, CPU per frame, of one pair's", metric: figures.CPU,
			subject: figures.Key{Series: "scale-active", Relay: rounds.Daemon, Active: 64},
			base:    alone, limit: 1.25, atMost: true,
		},
		{
			id: "idle-peers", text: "62 idle peers, CPU per frame, of a pair's alone", metric: figures.CPU,
			subject: figures.Key{Series: "scale-idle", Relay: rounds.Daemon, Clients: 64},
			base:    alone, limit: 1.05, atMost: true,
		},
		{
			id: "rtt", text: "idle round trip, p50, of the floor's", metric: figures.P50,
			subject: figures.Key{Series: "latency", Relay: rounds.Daemon, Clients: 2, Active: 2},
			base:    to(rounds.Floor), limit: 1.1, atMost: true, rounds: manyRounds,
		},
		{
			id: "rtt-bulk", text: "round trip beside a bulk transfer, p99, of the floor's", metric: figures.P99,
			subject: figures.Key{Series: "latency", Relay: rounds.Daemon}, when: loaded,
			base: to(rounds.Floor), limit: 3, atMost: true, rounds: manyRounds,
		},
		{
			id: "vmnet", text: "simulated vmnet, CPU per frame, of the C program's", metric: figures.CPU,
			subject: figures.Key{Series: "pair", Relay: rounds.DaemonVmnet}, base: to(rounds.VmnetC), limit: 1.5, atMost: true,
		},
		{
			id: "tcp", text: "TCP between two fake VMs, of the floor's", metric: figures.Gbit,
			subject: figures.Key{Series: "tcp", Relay: rounds.Daemon}, base: to(rounds.Floor), limit: 0.8, rounds: manyRounds,
		},
		{
			id: "gateway", text: "TCP through the gateway, of gvproxy's", metric: figures.Gbit,
			subject: figures.Key{Series: "gateway", Relay: rounds.Daemon}, base: to(rounds.Gvproxy), limit: 1.2, rounds: manyRounds,
		},
		{
			id: "start", text: "start until a client is served", metric: figures.Start,
			subject: figures.Key{Series: "start", Relay: rounds.Daemon}, limit: 50, atMost: true, rounds: startRounds,
		},
		{
			id: "memory", text: "anonymous memory with 8 busy clients", metric: figures.Memory,
			subject: figures.Key{Series: "memory", Relay: rounds.Daemon, Active: 8}, limit: 25, atMost: true,
		},
		{
			id: "idle", text: "wake-ups of a daemon with idle stream clients", metric: figures.IdleSwitches,
			subject: figures.Key{Series: "idle", Relay: rounds.Daemon, Transport: "stream"}, limit: 0, atMost: true,
		},
	},
)

// oldTargets are those against the old way with 2, 8 and 64 clients.
func oldTargets(sender string, limits ...float64) (all []target) {
	for i, clients := range []int{2, 8, 64} {
		all = append(all, target{
			id:     fmt.Sprintf("old-%s-%d", sender, clients),
			text:   fmt.Sprintf("%d clients, %s, rate, of the old way's", clients, senderLabel(sender)),
			metric: figures.Rate,
			subject: figures.Key{
				Series: "scale-idle", Relay: rounds.Daemon, Sender: sender, Clients: clients, Transport: "stream",
			},
			base: to(rounds.Old), limit: limits[i], rounds: manyRounds,
		})
	}
	return all
}

// A result is a target with what was measured in one set-up.
type result struct {
	target
	run    *figures.Run
	key    figures.Key
	figure float64 // a ratio, or in the unit of the metric
	value  figures.Value
	against,
	how string
	few bool
}

// met tells whether the figure, with all its digits, is on the right side.
func (r result) met() bool {
	if r.atMost {
		return r.figure <= r.limit
	}
	return r.figure >= r.limit
}

// results are what the runs say about a target: nothing if it was not measured.
func (t target) results(runs []*figures.Run) (all []result, err error) {
	for _, run := range runs {
		rows, err := rowsOf(run, t.subject)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if t.when != nil && !t.when(r.key) {
				continue
			}
			if res, ok := t.judge(r); ok {
				all = append(all, res)
			}
		}
	}
	return all, nil
}

// judge compares one set-up.
func (t target) judge(r row) (res result, measured bool) {
	res = result{target: t, run: r.run, key: r.key, how: t.metric.How()}
	if t.base == nil {
		v, ok := t.metric.Of(r.group)
		res.figure, res.value, res.few = v.Value, v, v.N < t.rounds
		return res, ok
	}
	base := t.base(r.key)
	var g figures.Group
	if base.Relay != r.key.Relay {
		g = r.run.Beside(r.key, base.Relay)
	} else if g, _ = r.run.Group(base); g == nil { // several set-ups: none can be meant
		return res, false
	}
	ratio, ok := figures.Decide(t.metric, r.group, g)
	if !ok {
		return res, false
	}
	res.figure, res.value = ratio.Ratio, ratio.Subject
	if ratio.ByCPU {
		res.how = "CPU"
	}
	res.few = res.how == "best" && min(len(r.group), len(g)) < t.rounds
	res.against = figures.Format(ratio.Base.Value)
	return res, true
}

// variant tells the results of one target apart.
func variant(all []result, r result) string {
	var parts []string
	for _, d := range dimensions {
		first := d.cell(row{key: all[0].key})
		if slices.ContainsFunc(all, func(o result) bool { return d.cell(row{key: o.key}) != first }) {
			s := d.cell(row{key: r.key})
			if d.head == "MTU" {
				s = "MTU " + s
			}
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// verdict is how a result is shown.
func (r result) verdict() string {
	s := "**missed**"
	if r.met() {
		s = "met"
	}
	if r.few {
		s += " †"
	}
	return s
}
