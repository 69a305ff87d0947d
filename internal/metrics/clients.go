// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// maxClients is how many clients have series of their own: those with the lowest IDs. The others are summed up.
const maxClients = 256

// other is the label client of all that have no series of their own.
const other = "other"

// clients is what is remembered of clients from one scrape to the next.
type clients struct {
	limit int              // maxClients; tests have less
	named map[uint64]names // of those with series of their own
	// rest are the counters of all that have none, and seen is what each of them had when it was counted last: a sum of those that
	// are there would go backwards when one leaves, or becomes one with series of its own.
	rest tally
	seen map[uint64]tally
}

// names are the labels of a client. Once they are not empty they stay, since each new value is a new series.
type names struct{ name, mac string }

func newClients() clients {
	return clients{limit: maxClients, named: map[uint64]names{}, rest: newTally(), seen: map[uint64]tally{}}
}

// collect gives out the series of all.
func (c *clients) collect(out output, all []status.Client) {
	all = slices.SortedFunc(slices.Values(all), func(a, b status.Client) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b status.Client) bool { return a.ID == b.ID })
	own := all[:min(len(all), c.limit)]
	here := make(map[uint64]bool, len(own))
	for i := range own {
		x := &own[i]
		here[x.ID] = true
		delete(c.seen, x.ID)
		n := c.naming(x)
		labels := []string{strconv.FormatUint(x.ID, 10), n.name, n.mac}
		out.put(clientInfo, 1, append(slices.Clone(labels), x.Transport, x.State, x.Interface.Kind)...)
		out.client(labels, tallyOf(x), gaugesOf(x))
	}
	maps.DeleteFunc(c.named, func(id uint64, _ names) bool { return !here[id] })
	c.collectRest(out, all[len(own):])
}

// naming is what x is called.
func (c *clients) naming(x *status.Client) names {
	n := c.named[x.ID]
	n.name = cmp.Or(n.name, clean(x.Name), clean(x.Hostname))
	n.mac = cmp.Or(n.mac, clean(x.MAC))
	c.named[x.ID] = n
	return n
}

// collectRest gives out the sums of those without series of their own.
func (c *clients) collectRest(out output, all []status.Client) {
	here := make(map[uint64]bool, len(all))
	var g gauges
	for i := range all {
		x := &all[i]
		here[x.ID] = true
		now := tallyOf(x)
		c.rest.add(now, c.seen[x.ID])
		c.seen[x.ID] = now
		g.add(gaugesOf(x))
	}
	maps.DeleteFunc(c.seen, func(id uint64, _ tally) bool { return !here[id] })
	if len(all) > 0 || c.rest.used {
		c.rest.used = true
		out.client([]string{other, "", ""}, c.rest, g)
	}
}

// client gives out the series behind labels.
func (o output) client(labels []string, t tally, g gauges) {
	o.count(clientReceiveBytes, t.toClient.Bytes, labels...)
	o.count(clientReceivePackets, t.toClient.Frames, labels...)
	o.reasons(clientReceiveDrop, t.toClient.Drops, labels...)
	o.count(clientTransmitBytes, t.toNet.Bytes, labels...)
	o.count(clientTransmitPackets, t.toNet.Frames, labels...)
	o.reasons(clientTransmitDrop, t.toNet.Drops, labels...)
	o.count(clientMoves, t.moves, labels...)
	o.put(clientQueue, g.queue, labels...)
	o.put(clientStalled, g.stalled, labels...)
	o.put(clientWaiting, g.waiting, labels...)
}

// A tally is the counters of a client, or sums of them.
type tally struct {
	toClient, toNet status.Traffic
	moves           uint64
	used            bool // there is a series of it
}

func newTally() tally {
	return tally{toClient: status.Traffic{Drops: map[string]uint64{}}, toNet: status.Traffic{Drops: map[string]uint64{}}}
}

func tallyOf(x *status.Client) tally {
	return tally{toClient: x.ToClient, toNet: x.ToNet, moves: x.MACMoves}
}

// add adds what came between before and now.
func (t *tally) add(now, before tally) {
	addTraffic(&t.toClient, now.toClient, before.toClient)
	addTraffic(&t.toNet, now.toNet, before.toNet)
	t.moves += since(now.moves, before.moves)
}

func addTraffic(t *status.Traffic, now, before status.Traffic) {
	t.Frames += since(now.Frames, before.Frames)
	t.Bytes += since(now.Bytes, before.Bytes)
	for reason, n := range now.Drops {
		t.Drops[reason] += since(n, before.Drops[reason])
	}
}

// since is how much a counter has grown; one that went back has started over.
func since(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// gauges are what goes up and down: a sum of the bytes, and the longest of the times.
type gauges struct{ queue, stalled, waiting float64 }

func gaugesOf(x *status.Client) gauges {
	return gauges{queue: float64(x.Queue.Bytes), stalled: x.Queue.Stalled, waiting: x.DHCP.Waiting}
}

func (g *gauges) add(x gauges) {
	g.queue += x.queue
	g.stalled = max(g.stalled, x.stalled)
	g.waiting = max(g.waiting, x.waiting)
}
