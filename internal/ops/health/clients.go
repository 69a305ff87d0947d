// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// stalledTime is for how long a client may take nothing although something waits for it.
	stalledTime = 5 * time.Second

	// flappingMoves is how often an address may come to a client's port from another one within window.
	flappingMoves = 10
)

// dropQueueFull is a reason for drops, as the status names it.
const dropQueueFull = "drop_queue_full"

// growth is what a counter of c has added, since a look that was long enough ago or since c connected.
type growth struct {
	n     uint64
	over  time.Duration
	known bool // it is since such a look
	news  bool // it is recent; else it may be over
}

// grew is how much the counter that pick finds has grown.
func (v *view) grew(c *status.Client, pick func(counters) uint64) growth {
	g := growth{n: pick(countersOf(c)), over: seconds(c.Age)}
	if v.base != nil {
		var before counters
		if before, g.known = v.base.clients[c.ID]; g.known {
			g.over = v.Now.Sub(v.base.at)
			if p := pick(before); p <= g.n { // else it was reset
				g.n -= p
			}
		}
	}
	g.news = g.over <= recent
	return g
}

func broadcasts(c counters) uint64 { return c.storm }

// growths are the rules about counters: a problem if one has grown by more than limit in window. The texts have places for what grown
// puts in.
var growths = []struct {
	code  string
	pick  func(counters) uint64
	limit uint64
	text  string
	fix   []string
}{
	{
		status.SlowClient, func(c counters) uint64 { return c.queueFull }, 0,
		"{clients} {reads} slower than others send: {over} {n} frames for {it} were dropped.",
		[]string{
			"That is normal where something is sent without regard for the receiver, as in UDP tests.",
			"Else give the guest more processor time, or if frames come in bursts, the daemon a larger --queue-size (now {queue}, of at most 8M).",
		},
	},
	{
		status.Storm, broadcasts, 0,
		"{clients} {sends} a storm: {over} {n} broadcasts and frames for unknown addresses beyond 50,000 a second were dropped.",
		[]string{
			"Look for a loop inside of the guest: a bridge with two interfaces on this network, or a program that scans.",
			"See what it sends:", command("socket_vmnet2 capture --client={id} -c 100 -w storm.pcapng {socket}"),
			"Or throw it off the network:", command("socket_vmnet2 kick {id} {socket}"),
		},
	},
	{
		status.Flapping, func(c counters) uint64 { return c.moves }, flappingMoves,
		"MAC addresses move between clients all the time: {n} times to {clients} {over}, and frames for them go astray.",
		[]string{
			"Give every guest a MAC address of its own.",
			"If a guest is a bridge, see that it does not connect two clients of this network: that is a loop.",
		},
	},
	{
		status.OffloadMixed, func(c counters) uint64 { return c.oversize }, 0,
		"Frames that are too long for {clients} were dropped: {n} {over}.",
		[]string{"{offload}"},
	},
}

// grown finds clients whose counters grow. Where nothing was looked at for a while it is a notice: it may be over.
func grown(v *view) {
	for _, rule := range growths {
		var those []*status.Client
		var all growth
		for _, c := range v.which(func(c *status.Client) bool { return rule.code != status.SlowClient || !isStalled(c) }) {
			g := v.grew(c, rule.pick)
			if g.n > rule.limit && (!g.news || g.n*uint64(window) > rule.limit*uint64(g.over)) {
				those = append(those, c)
				all.n += g.n
				all.over, all.news = max(all.over, g.over), all.news || g.news
			}
		}
		if len(those) == 0 {
			continue
		}
		offload := "Set the same MTU in all guests."
		if v.Network.Offload {
			offload = "Start the daemon without --offload, or give it clients only that take large frames."
		}
		put := strings.NewReplacer("{clients}", names(those), "{n}", fmt.Sprint(all.n), "{over}", "in the last "+span(all.over), "{offload}", offload,
			"{reads}", verb(those, "reads", "read"), "{sends}", verb(those, "sends", "send"), "{it}", verb(those, "it", "them"),
			"{id}", fmt.Sprint(those[0].ID), "{socket}", v.socket(), "{queue}", fmt.Sprintf("%dK", v.Daemon.QueueSize>>10))
		severity, fix := status.Warning, []string{}
		if !all.news {
			severity, fix = status.Notice, []string{"It may be over: ask again in a minute."}
		}
		for _, step := range rule.fix {
			fix = append(fix, put.Replace(step))
		}
		v.found(rule.code, severity, those, fix, "%s", put.Replace(rule.text))
	}
}

func isStalled(c *status.Client) bool { return seconds(c.Queue.Stalled) >= stalledTime }

// stalled finds clients that do not read.
func stalled(v *view) {
	list := v.which(isStalled)
	if len(list) == 0 {
		return
	}
	longest, waiting, dropped := 0.0, 0, uint64(0)
	for _, c := range list {
		longest = max(longest, c.Queue.Stalled)
		waiting += c.Queue.Bytes
		dropped += c.ToClient.Drops[dropQueueFull]
	}
	fix := []string{"Its virtual machine is paused, hangs or was stopped by a debugger: look at it, and let it go on. Others are not affected."}
	if p := list[0].Peer; p.PID > 0 {
		fix = append(fix, "Its process:", command("ps -o pid,stat,command -p %d", p.PID))
	}
	fix = append(fix, "A guest that has gone for good is thrown off by", v.kick(list))
	f := v.found(status.StalledClient, status.Warning, list, fix, "%s %s not read, and has taken nothing for %s: %d bytes wait, %d frames were dropped since it connected.",
		names(list), verb(list, "does", "do"), span(seconds(longest)), waiting, dropped)
	f.Since = v.Now.Add(-seconds(longest))
}

// noInterface finds clients whose port cannot be started. That macOS's sharing service is busy is another problem.
func noInterface(v *view) {
	list := v.which(func(c *status.Client) bool {
		return c.Error != "" && c.State != status.StateLeaving && !isBusy(c.Error)
	})
	if len(list) == 0 {
		return
	}
	v.found(status.NoInterface, status.Error, list, []string{"It is tried again by itself, at last every 30 s. The error says what is in the way."},
		"%s %s no network: %s.", names(list), verb(list, "has", "have"), list[0].Error)
}

// wakeNews is for how long it is told that interfaces had died when the host woke up.
const wakeNews = time.Hour

// diedAsleep finds that interfaces were started again when the host woke up.
func diedAsleep(v *view) {
	m := v.Network.Vmnet
	if m == nil || m.LastWake == nil || m.LastWake.Restarted == 0 || v.Now.Sub(m.LastWake.At) > wakeNews {
		return
	}
	w := m.LastWake
	f := v.found(status.DiedAsleep, status.Notice, nil, []string{"Guests go on by themselves. If one has no network all the same, have it ask for its address again, or restart it."},
		"The host slept for %s. When it woke up, %s of vmnet had died and %s started again.", span(seconds(w.Slept)), printable.Count(w.Restarted, "interface"),
		map[bool]string{true: "was", false: "were"}[w.Restarted == 1])
	f.Since = w.At
}

// sharedInterface finds clients that share a vmnet interface though each should have one.
func sharedInterface(v *view) {
	m := v.Network.Vmnet
	if m == nil || m.Shared == 0 || v.opts.OneInterface || m.LastFailure == "" {
		return
	}
	v.found(status.SharedInterface, status.Warning, v.which(func(c *status.Client) bool { return c.Interface.Kind == status.InterfaceShared }),
		[]string{"macOS has 32 interfaces for all programs together. Stop virtual machines that are not needed: a client gets its own when another leaves."},
		"%d clients share one vmnet interface because no other could be started, which makes them slower; %d have their own: %s.", m.Shared, m.Own, m.LastFailure)
}

// unservedTime is for how long a refusal is told: a guest without an answer asks again within a minute or so.
const unservedTime = 10 * time.Minute

// unserved finds what was refused with advice. Who sent it may be a guest's VMM, whose guest has no network then.
func unserved(v *view) {
	for _, r := range v.Totals.Unserved {
		ago := v.Now.Sub(r.Last)
		if r.Advice == "" || ago >= unservedTime {
			continue
		}
		severity := map[bool]string{true: status.Notice, false: status.Warning}[ago > recent]
		fix := []string{strings.ToUpper(r.Advice[:1]) + r.Advice[1:] + "."}
		if strings.Contains(r.Advice, "exec --dgram") {
			fix = append(fix, "QEMU as root:", command("socket_vmnet2 exec --dgram %s -- qemu-system-... -netdev dgram,id=n0,local.type=fd,local.str={fd}", v.socket()))
		}
		v.found(status.NotServed, severity, nil, fix, "Refused: %s, %s (%d so far, the last %s ago).", r.From, r.Reason, r.Count, span(ago)).of = r.Reason
	}
}

// refused finds that clients were turned away.
func refused(v *view) {
	n, over := v.Totals.Refused, seconds(v.Daemon.Uptime)
	if v.base != nil && v.base.refused <= n {
		n, over = n-v.base.refused, v.Now.Sub(v.base.at)
	}
	if n == 0 {
		return
	}
	severity := status.Warning
	if over > recent {
		severity = status.Notice
	}
	v.found(status.ClientsRefused, severity, nil, []string{
		"See which clients have the connections, and start the daemon with a larger --max-clients if that is right:", command("socket_vmnet2 clients %s", v.socket()),
	}, "%d connections were refused in the last %s because there were %d clients, as many as --max-clients allows; there are %d now.",
		n, span(over), v.Daemon.MaxClients, len(v.Clients))
}
