// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// gap is what stands between two columns.
const gap = "  "

// A column of the table of clients.
type column struct {
	title string
	rank  int  // the lowest stays longest when the terminal is narrow
	least int  // characters to which it may be cut; 0: it is shown whole or not at all
	right bool // numbers
	cell  func(Client) string

	cells []string
	width int // that it has got; 0: it is left out
}

// columns are what there is to tell of clients.
func (p *page) columns(s *Status) []column {
	columns := []column{
		{title: "ID", rank: 0, right: true, cell: func(c Client) string { return strconv.FormatUint(c.ID, 10) }},
		{title: "NAME", rank: 1, least: 8, cell: Client.Called},
		{title: "PROTO", rank: 13, cell: func(c Client) string { return c.Transport }},
		{title: "PEER", rank: 9, least: 12, cell: func(c Client) string { return c.Peer.text() }},
		{title: "MAC", rank: 4, cell: func(c Client) string { return c.MAC }},
		{title: "IP", rank: 2, cell: func(c Client) string { return printable.Valid(c.IP) }},
		{title: "STATE", rank: 3, cell: func(c Client) string { return c.State }},
		{title: "AGE", rank: 10, right: true, cell: func(c Client) string { return seconds(c.Age) }},
		{title: "TO-NET", rank: 8, right: true, cell: func(c Client) string { return c.ToNet.text() }},
		{title: "TO-CLIENT", rank: 7, right: true, cell: func(c Client) string { return c.ToClient.text() }},
		{title: "NET/S", rank: 5, right: true, cell: func(c Client) string { return s.rate(p.Before, c, func(c Client) Traffic { return c.ToNet }) }},
		{title: "CLIENT/S", rank: 5, right: true, cell: func(c Client) string { return s.rate(p.Before, c, func(c Client) Traffic { return c.ToClient }) }},
		{title: "DROPS", rank: 6, least: 10, cell: func(c Client) string { return drops(c.ToNet.Drops, c.ToClient.Drops) }},
		{title: "QUEUE", rank: 11, right: true, cell: func(c Client) string { return humanBytes(uint64(max(0, c.Queue.Bytes))) }},
		{title: "IFACE", rank: 14, cell: func(c Client) string { return c.Interface.Kind }},
	}
	if p.Before == nil {
		columns = slices.DeleteFunc(columns, func(c column) bool { return strings.HasSuffix(c.title, "/S") })
	}
	return columns
}

// clients writes the table, a row for each client.
func (p *page) clients(s *Status) {
	if len(s.Clients) == 0 && !p.Piped {
		p.line("no client is connected")
		return
	}
	all := p.columns(s)
	for i := range all {
		all[i].cells = append(all[i].cells, all[i].title)
		for _, client := range s.Clients {
			all[i].cells = append(all[i].cells, p.cell(all[i].cell(client)))
		}
	}
	p.fit(all)
	all = slices.DeleteFunc(all, func(c column) bool { return c.width == 0 })
	for row := range len(s.Clients) + 1 {
		for i, c := range all {
			text, style := c.cells[row], ""
			if n := utf8.RuneCountInString(text); n > c.width {
				text = string([]rune(text)[:c.width-1]) + "…"
			} else if fill := strings.Repeat(" ", c.width-n); c.right {
				text = fill + text
			} else if i < len(all)-1 {
				text += fill
			}
			if row == 0 {
				style = bold
			} else if c.title == "STATE" && s.Clients[row-1].State != StateRunning {
				style = yellow
			}
			if i > 0 {
				p.text.WriteString(gap)
			}
			p.text.WriteString(p.styled(style, text))
		}
		p.text.WriteByte('\n')
	}
}

// cell is what a cell holds: something in any case, and one word if a program may read it.
func (p *page) cell(text string) string {
	words := strings.Fields(Clean(text))
	if p.Piped {
		return cmp.Or(strings.Join(words, "_"), "-")
	}
	return cmp.Or(strings.Join(words, " "), "-")
}

// fit chooses the columns that fit on the terminal, and their widths: those of the lowest rank first, as narrow as they may be. What is
// left goes to those that were cut.
func (p *page) fit(all []column) {
	room := p.Width + len(gap)
	if p.Piped || p.Wide || p.Width == 0 {
		room = math.MaxInt
	}
	var byRank, cut []*column
	for i := range all {
		byRank = append(byRank, &all[i])
	}
	slices.SortStableFunc(byRank, func(a, b *column) int { return cmp.Compare(a.rank, b.rank) })
	for i, c := range byRank {
		w := c.natural()
		if c.least > 0 && room < math.MaxInt/2 {
			w = min(w, max(c.least, len(c.title)))
		}
		if i == 0 || len(gap)+w <= room {
			c.width, room, cut = w, room-len(gap)-w, append(cut, c)
		}
	}
	for _, c := range cut {
		more := max(0, min(c.natural()-c.width, room))
		c.width, room = c.width+more, room-more
	}
}

// natural is the width at which no cell is cut.
func (c *column) natural() (width int) {
	for _, cell := range c.cells {
		width = max(width, utf8.RuneCountInString(cell))
	}
	return width
}

// Called is what to call a client: as it calls itself, or as its guest does.
func (c Client) Called() string { return cmp.Or(c.Name, c.Hostname) }

func (p Peer) text() string {
	if !p.Known {
		return ""
	}
	return cmp.Or(p.User, strconv.FormatUint(uint64(p.UID), 10)) + some("/%d", p.PID) + printable.Behind("/", p.Command)
}

func (t Traffic) text() string { return humanCount(t.Frames) + "/" + humanBytes(t.Bytes) }

// drops is how many frames were dropped and why, the most frequent reason first.
func drops(ways ...map[string]uint64) string {
	sum, by := uint64(0), map[string]uint64{}
	for _, way := range ways {
		for reason, n := range way {
			if n > 0 {
				sum += n
				by[strings.TrimPrefix(reason, "drop_")] += n
			}
		}
	}
	if sum == 0 {
		return "0"
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	for i, reason := range reasons {
		reasons[i] = reason + ":" + humanCount(by[reason])
	}
	return humanCount(sum) + "(" + strings.Join(reasons, ",") + ")"
}

// rate is what passed in a second since the last look; nothing for a client that was not there then.
func (s *Status) rate(before *Status, c Client, way func(Client) Traffic) string {
	i := slices.IndexFunc(before.Clients, func(b Client) bool { return b.ID == c.ID && b.Connected.Equal(c.Connected) })
	took := s.Now.Sub(before.Now)
	if i < 0 || took < time.Millisecond {
		return ""
	}
	is, was := way(c), way(before.Clients[i])
	if is.Frames < was.Frames || is.Bytes < was.Bytes {
		return ""
	}
	per := func(n uint64) uint64 { return uint64(float64(n)/took.Seconds() + 0.5) }
	return Traffic{Frames: per(is.Frames - was.Frames), Bytes: per(is.Bytes - was.Bytes)}.text()
}

// humanBytes is a number of bytes for people, such as 1.2MiB.
func humanBytes(n uint64) string {
	return scaled(float64(n), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"})
}

// humanCount is a number for people, such as 12.3k.
func humanCount(n uint64) string {
	return scaled(float64(n), 1000, []string{"", "k", "M", "G", "T", "P", "E"})
}

// scaled has at most three digits in front of the unit, or four for multiples of 1,024, and a tenth where there are two.
func scaled(v, base float64, units []string) string {
	i := 0
	for ; i < len(units)-1 && math.Round(v) >= base; i++ { // 999,999 is 1.0M, not 1000k
		v /= base
	}
	if i > 0 && v < 99.95 {
		return strconv.FormatFloat(v, 'f', 1, 64) + units[i]
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + units[i]
}

// humanDuration is a time for people: its two largest units, such as 3m12s.
func humanDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// maxSeconds is more than a Duration holds; a daemon's number may be anything.
const maxSeconds = math.MaxInt64 / float64(time.Second) / 2

// seconds is a time of a status.
func seconds(s float64) string {
	if !(s > 0) { // also no number
		s = 0
	}
	return humanDuration(time.Duration(min(s, maxSeconds) * float64(time.Second)))
}
