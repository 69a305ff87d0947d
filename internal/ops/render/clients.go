// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// columnsOf are what there is to tell of clients. before is the same daemon some time ago; nil: there are no rates.
func columnsOf(now, before *status.Status) []column {
	columns := []column{
		{"ID", 0, 0, true, func(c status.Client) string { return strconv.FormatUint(c.ID, 10) }},
		{"NAME", 1, 8, false, NameOf},
		{"PROTO", 13, 0, false, func(c status.Client) string { return c.Transport }},
		{"PEER", 9, 12, false, func(c status.Client) string { return peer(c.Peer) }},
		{"MAC", 4, 0, false, func(c status.Client) string { return c.MAC }},
		{"IP", 2, 0, false, func(c status.Client) string { return valid(c.IP) }},
		{stateTitle, 3, 0, false, func(c status.Client) string { return c.State }},
		{"AGE", 10, 0, true, func(c status.Client) string { return seconds(c.Age) }},
		{"TO-NET", 8, 0, true, func(c status.Client) string { return traffic(c.ToNet) }},
		{"TO-CLIENT", 7, 0, true, func(c status.Client) string { return traffic(c.ToClient) }},
		{"NET/S", 5, 0, true, func(c status.Client) string { return rate(now, before, c, toNet) }},
		{"CLIENT/S", 5, 0, true, func(c status.Client) string { return rate(now, before, c, toClient) }},
		{"DROPS", 6, 10, false, func(c status.Client) string { return drops(c.ToNet.Drops, c.ToClient.Drops) }},
		{"QUEUE", 11, 0, true, func(c status.Client) string { return humanBytes(uint64(max(0, c.Queue.Bytes))) }},
		{"IFACE", 14, 0, false, func(c status.Client) string { return c.Interface.Kind }},
	}
	if before == nil {
		columns = slices.DeleteFunc(columns, func(c column) bool { return strings.HasSuffix(c.title, "/S") })
	}
	return columns
}

// clients writes the table.
func (p *page) clients(s *status.Status) {
	if len(s.Clients) == 0 && !p.Piped {
		p.whole("no client is connected")
		return
	}
	p.table(columnsOf(s, p.Before), s.Clients)
}

// cell is what a cell holds: something in any case, and one word if a program may read it.
func (p *page) cell(text string) string {
	text = strings.TrimSpace(Clean(text))
	if text == "" {
		return "-"
	}
	if p.Piped {
		return strings.Join(strings.Fields(text), "_")
	}
	return text
}

// NameOf is what to call a client: as it calls itself, or as its guest does.
func NameOf(c status.Client) string { return cmp.Or(c.Name, c.Hostname) }

func peer(p status.Peer) string {
	if !p.Known {
		return ""
	}
	pid := ""
	if p.PID != 0 {
		pid = "/" + strconv.Itoa(p.PID)
	}
	return cmp.Or(p.User, strconv.FormatUint(uint64(p.UID), 10)) + pid + printable.Behind("/", p.Command)
}

func traffic(t status.Traffic) string { return humanCount(t.Frames) + "/" + humanBytes(t.Bytes) }

// drops is how many frames were dropped and why, the most frequent reason first.
func drops(ways ...map[string]uint64) string {
	sum, by := uint64(0), map[string]uint64{}
	for _, way := range ways {
		for reason, n := range way {
			sum += n
			by[strings.TrimPrefix(reason, "drop_")] += n
		}
	}
	if sum == 0 {
		return "0"
	}
	var list []string
	for _, reason := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	}) {
		if n := by[reason]; n > 0 {
			list = append(list, fmt.Sprintf("%s:%s", reason, humanCount(n)))
		}
	}
	return fmt.Sprintf("%s(%s)", humanCount(sum), strings.Join(list, ","))
}

func toNet(c status.Client) status.Traffic    { return c.ToNet }
func toClient(c status.Client) status.Traffic { return c.ToClient }

// rate is what passed in a second since the last look; nothing for a client that was not there then.
func rate(now, before *status.Status, c status.Client, way func(status.Client) status.Traffic) string {
	i := slices.IndexFunc(before.Clients, func(b status.Client) bool { return b.ID == c.ID && b.Connected.Equal(c.Connected) })
	took := now.Now.Sub(before.Now)
	if i < 0 || took < time.Millisecond {
		return ""
	}
	is, was := way(c), way(before.Clients[i])
	if is.Frames < was.Frames || is.Bytes < was.Bytes {
		return ""
	}
	per := func(n uint64) uint64 { return uint64(float64(n)/took.Seconds() + 0.5) }
	return humanCount(per(is.Frames-was.Frames)) + "/" + humanBytes(per(is.Bytes-was.Bytes))
}
