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
	// rest is the sum of all that have none, and seen is what each of them had when it was counted last: a sum of the counters of those
	// that are there would go backwards when one leaves, or becomes one with series of its own.
	rest status.Client
	used bool // there is a series of rest
	seen map[uint64]status.Client
}

// names are the labels of a client. Once they are not empty they stay, since each new value is a new series.
type names struct{ name, mac string }

func newClients() clients {
	c := clients{limit: maxClients, named: map[uint64]names{}, seen: map[uint64]status.Client{}}
	c.rest.ToClient.Drops, c.rest.ToNet.Drops = map[string]uint64{}, map[string]uint64{}
	return c
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
		out.client(labels, x)
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
	c.rest.Queue, c.rest.DHCP = status.Queue{}, status.ClientDHCP{}
	for i := range all {
		x := &all[i]
		here[x.ID] = true
		addClient(&c.rest, x, c.seen[x.ID])
		c.seen[x.ID] = *x
	}
	maps.DeleteFunc(c.seen, func(id uint64, _ status.Client) bool { return !here[id] })
	if len(all) > 0 || c.used {
		c.used = true
		out.client([]string{other, "", ""}, &c.rest)
	}
}

// client gives out the series behind labels.
func (o output) client(labels []string, x *status.Client) {
	o.count(clientReceiveBytes, x.ToClient.Bytes, labels...)
	o.count(clientReceivePackets, x.ToClient.Frames, labels...)
	o.reasons(clientReceiveDrop, x.ToClient.Drops, labels...)
	o.count(clientTransmitBytes, x.ToNet.Bytes, labels...)
	o.count(clientTransmitPackets, x.ToNet.Frames, labels...)
	o.reasons(clientTransmitDrop, x.ToNet.Drops, labels...)
	o.count(clientMoves, x.MACMoves, labels...)
	o.put(clientQueue, float64(x.Queue.Bytes), labels...)
	o.put(clientStalled, x.Queue.Stalled, labels...)
	o.put(clientWaiting, x.DHCP.Waiting, labels...)
}

// addClient adds what came between before and now, and now's gauges: the bytes, and the longest of the times.
func addClient(sum, now *status.Client, before status.Client) {
	addTraffic(&sum.ToClient, now.ToClient, before.ToClient)
	addTraffic(&sum.ToNet, now.ToNet, before.ToNet)
	sum.MACMoves += since(now.MACMoves, before.MACMoves)
	sum.Queue.Bytes += now.Queue.Bytes
	sum.Queue.Stalled = max(sum.Queue.Stalled, now.Queue.Stalled)
	sum.DHCP.Waiting = max(sum.DHCP.Waiting, now.DHCP.Waiting)
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
