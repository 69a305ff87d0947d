// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// stalledTime is for how long a client may take nothing although something waits for it.
	stalledTime = 5 * time.Second

	// flappingMoves is how often an address may come to a client's port from another one within window.
	flappingMoves = 10
)

// growth is what a counter of c has added, since a look that was long enough ago or since c connected.
type growth struct {
	n    uint64
	over time.Duration
	news bool // it is recent; else it may be over
}

// grew is how much the counter that pick finds has grown.
func (v *view) grew(c *status.Client, pick func(counters) uint64) growth {
	g := growth{n: pick(countersOf(c)), over: seconds(c.Age)}
	if v.base != nil {
		if before, ok := v.base.clients[c.ID]; ok {
			g.over = v.Now.Sub(v.base.at)
			if p := pick(before); p <= g.n { // else it was reset
				g.n -= p
			}
		}
	}
	g.news = g.over <= recent
	return g
}

// recently reports whether the counter has grown within the last minute, as far as is known.
func (v *view) recently(c *status.Client, pick func(counters) uint64) bool {
	g := v.grew(c, pick)
	return g.news && g.n > 0
}

// growing makes a problem of the clients whose counter grew by more than limit in window. Where nobody looked for a while it
// is a notice: it may be over.
func (v *view) growing(pick func(counters) uint64, limit uint64, which func(*status.Client) bool, make func(list []*status.Client, n uint64, over string) status.Problem) []finding {
	var list []*status.Client
	var sum uint64
	var longest time.Duration
	news := false
	for i := range v.Clients {
		c := &v.Clients[i]
		g := v.grew(c, pick)
		if !which(c) || g.n <= limit || g.news && g.n*uint64(window) <= limit*uint64(g.over) {
			continue
		}
		list = append(list, c)
		sum += g.n
		longest, news = max(longest, g.over), news || g.news
	}
	if len(list) == 0 {
		return nil
	}
	p := make(list, sum, "in the last "+span(longest))
	p.Clients, p.Severity = ids(list), status.Warning
	if !news {
		p.Severity = status.Notice
		p.Fix = append([]string{"It may be over: ask again in a minute."}, p.Fix...)
	}
	return []finding{{Problem: p}}
}

// anyClient and reads are whose counters growing looks at.
func anyClient(*status.Client) bool { return true }

func reads(c *status.Client) bool { return seconds(c.Queue.Stalled) < stalledTime }

// storm finds clients that send more broadcasts than are passed on.
func storm(v *view) []finding {
	return v.growing(func(c counters) uint64 { return c.storm }, 0, anyClient, func(list []*status.Client, n uint64, over string) status.Problem {
		return status.Problem{
			Code: status.Storm,
			Text: fmt.Sprintf("%s %s a storm: %s %d broadcasts and frames for unknown addresses beyond 50,000 a second were dropped.",
				names(list), verb(list, "sends", "send"), over, n),
			Fix: []string{
				"Look for a loop inside of the guest: a bridge with two interfaces on this network, or a program that scans.",
				"See what it sends:",
				command("socket_vmnet2 capture --client=%d -c 100 -w storm.pcapng --socket=%s", list[0].ID, shell.Quote(v.Daemon.Socket)),
				"Or throw it off the network:",
				command("socket_vmnet2 kick %d %s", list[0].ID, shell.Quote(v.Daemon.Socket)),
			},
		}
	})
}

// slow finds clients for which frames were dropped because they are behind. One that has stopped reading is stalled's.
func slow(v *view) []finding {
	return v.growing(func(c counters) uint64 { return c.queueFull }, 0, reads, func(list []*status.Client, n uint64, over string) status.Problem {
		return status.Problem{
			Code: status.SlowClient,
			Text: fmt.Sprintf("%s %s slower than others send: %s %d frames for %s were dropped.",
				names(list), verb(list, "reads", "read"), over, n, verb(list, "it", "them")),
			Fix: []string{
				"That is normal where something is sent without regard for who receives it, as in UDP tests.",
				"Else give the guest more processor time, or if frames come in bursts, the daemon a larger --queue-size " +
					fmt.Sprintf("(now %dK, of at most 8M).", v.Daemon.QueueSize>>10),
			},
		}
	})
}

// offloadMixed finds clients that are sent larger frames than they can take.
func offloadMixed(v *view) []finding {
	return v.growing(func(c counters) uint64 { return c.oversize }, 0, anyClient, func(list []*status.Client, n uint64, over string) status.Problem {
		fix := "Set the same MTU in all guests."
		if v.Network.Offload {
			fix = "Start the daemon without --offload, or give it clients only that take large frames."
		}
		return status.Problem{
			Code: status.OffloadMixed,
			Text: fmt.Sprintf("Frames that are too long for %s were dropped: %d %s.", names(list), n, over),
			Fix:  []string{fix},
		}
	})
}

// flapping finds clients to whose ports addresses come from others all the time.
func flapping(v *view) []finding {
	return v.growing(func(c counters) uint64 { return c.moves }, flappingMoves, anyClient, func(list []*status.Client, n uint64, over string) status.Problem {
		return status.Problem{
			Code: status.Flapping,
			Text: fmt.Sprintf("MAC addresses move between clients all the time: %d times to %s %s, and frames for them go astray.",
				n, names(list), over),
			Fix: []string{
				"Give every guest a MAC address of its own.",
				"If a guest is a bridge, see that it does not connect two clients of this network: that is a loop.",
			},
		}
	})
}

// stalled finds clients that do not read.
func stalled(v *view) []finding {
	list := v.which(func(c *status.Client) bool { return seconds(c.Queue.Stalled) >= stalledTime })
	if len(list) == 0 {
		return nil
	}
	longest, waiting, dropped := 0.0, 0, uint64(0)
	for _, c := range list {
		longest = max(longest, c.Queue.Stalled)
		waiting += c.Queue.Bytes
		dropped += c.ToClient.Drops[dropQueueFull]
	}
	fix := []string{
		"Its virtual machine is paused, hangs or was stopped by a debugger: look at it, and let it go on. Others are not affected.",
		"A guest that has gone for good is thrown off by",
		command("socket_vmnet2 kick %d %s", list[0].ID, shell.Quote(v.Daemon.Socket)),
	}
	if p := list[0].Peer; p.PID > 0 {
		fix = slices.Insert(fix, 1, "Its process:", command("ps -o pid,stat,command -p %d", p.PID))
	}
	return []finding{{Problem: status.Problem{
		Code: status.StalledClient, Severity: status.Warning, Clients: ids(list), Fix: fix, Since: v.Now.Add(-seconds(longest)),
		Text: fmt.Sprintf("%s %s not read, and has taken nothing for %s: %d bytes wait, %d frames were dropped since it connected.",
			names(list), verb(list, "does", "do"), span(seconds(longest)), waiting, dropped),
	}}}
}

// noInterface finds clients whose port cannot be started. That macOS's sharing service is busy is another problem.
func noInterface(v *view) []finding {
	list := v.which(func(c *status.Client) bool {
		return c.Error != "" && c.State != status.StateLeaving && !strings.Contains(c.Error, busyName)
	})
	if len(list) == 0 {
		return nil
	}
	fix := []string{"It is tried again by itself, at last every 30 s. The error says what is in the way."}
	return []finding{{Problem: status.Problem{
		Code: status.NoInterface, Severity: status.Error, Clients: ids(list), Fix: fix,
		Text: fmt.Sprintf("%s %s no network: %s.", names(list), verb(list, "has", "have"), list[0].Error),
	}}}
}
