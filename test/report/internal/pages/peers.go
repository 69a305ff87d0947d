// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/draw"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// Peers are the figures that others have published, of their programs on their machines.
type Peers struct {
	Note string    `json:"note"`
	Sets []PeerSet `json:"sets"`
}

// A PeerSet is what was published together.
type PeerSet struct {
	ID     string    `json:"id"`
	Source string    `json:"source"` // address
	Date   string    `json:"date"`   // year, month, and day if it is known
	Method string    `json:"method"`
	Rows   []PeerRow `json:"rows"`
}

// A PeerRow is one set-up. Rates are in Gbit/s; 0 was not published.
type PeerRow struct {
	Tool     string  `json:"tool"`
	Host     string  `json:"host"`
	VM       string  `json:"vm"`
	Network  string  `json:"network"`
	VMs      int     `json:"vms"`
	HostToVM float64 `json:"host_to_vm"`
	VMToHost float64 `json:"vm_to_host"`
	VMToVM   float64 `json:"vm_to_vm"`
	CPU      float64 `json:"cpu_percent"` // of the tool's process
}

// LoadPeers reads them from a file, strictly: a figure without its source is none.
func LoadPeers(path string) (p Peers, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return p, fmt.Errorf("read the published figures: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read the published figures of %s: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("read the published figures of %s: there is something behind them", path)
	}
	for _, s := range p.Sets {
		switch {
		case s.ID == "" || !strings.HasPrefix(s.Source, "https://") || s.Date == "" || s.Method == "" || len(s.Rows) == 0:
			return p, fmt.Errorf("%s: set %q needs an id, a source (https://), a date, a method and rows", path, s.ID)
		case slices.ContainsFunc(s.Rows, func(r PeerRow) bool { return r.Tool == "" || r.Host == "" || r.VM == "" || r.VMs < 1 }):
			return p, fmt.Errorf("%s: each row of set %q needs a tool, a host, a kind of VM and their number", path, s.ID)
		}
	}
	return p, nil
}

// set is the set of an id.
func (p Peers) set(id string) (PeerSet, error) {
	i := slices.IndexFunc(p.Sets, func(s PeerSet) bool { return s.ID == id })
	if i < 0 {
		return PeerSet{}, fmt.Errorf("there are no published figures %q", id)
	}
	return p.Sets[i], nil
}

// ids are those of the sets that begin so.
func (p Peers) ids(prefix string) (ids []string) {
	for _, s := range p.Sets {
		if strings.HasPrefix(s.ID, prefix) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// table shows a set.
func (p Peers) table(id string) (string, error) {
	s, err := p.set(id)
	if err != nil {
		return "", err
	}
	gbit := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", x)
	}
	type column struct {
		head string
		cell func(PeerRow) string
	}
	columns := []column{
		{"program", func(r PeerRow) string { return escape(r.Tool) }},
		{"Mac", func(r PeerRow) string { return escape(r.Host) }},
		{"VMs by", func(r PeerRow) string { return escape(r.VM) }},
		{"network", func(r PeerRow) string { return escape(r.Network) }},
		{"VMs", func(r PeerRow) string { return number(r.VMs) }},
		{"host to VM", func(r PeerRow) string { return gbit(r.HostToVM) }},
		{"VM to host", func(r PeerRow) string { return gbit(r.VMToHost) }},
		{"VM to VM", func(r PeerRow) string { return gbit(r.VMToVM) }},
		{"CPU, %", func(r PeerRow) string { return gbit(r.CPU) }},
	}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(s.Rows, func(r PeerRow) bool { return c.cell(r) != "" })
	})
	var b strings.Builder
	line := func(cell func(column) string) {
		for _, c := range columns {
			fmt.Fprintf(&b, "| %s ", cell(c))
		}
		b.WriteString("|\n")
	}
	line(func(c column) string { return c.head })
	line(func(column) string { return "---" })
	for _, r := range s.Rows {
		line(func(c column) string { return c.cell(r) })
	}
	fmt.Fprintf(&b, "\n*Published %s at [%s](%s), measured on Macs by others: %s.*", escape(s.Date),
		escape(strings.TrimPrefix(s.Source, "https://")), s.Source, escape(s.Method))
	return b.String(), nil
}

// fall is a curve of rates in percent of the first.
func fall(label string, style draw.Style, pts []draw.Point) (draw.Line, bool) {
	if len(pts) < 2 || pts[0].Y == 0 {
		return draw.Line{}, false
	}
	l := draw.Line{Label: label, Style: style}
	for _, p := range pts {
		y := 100 * p.Y / pts[0].Y
		l.Points = append(l.Points, draw.Point{X: p.X, Y: y, Low: y, High: y})
	}
	return l, true
}

// scaling draws how rates fall as idle clients come: the published ones of the shared network from host to VM, and ours of the
// series scale-idle, each in percent of its own rate with the fewest clients. Nothing else of them can be compared.
func (p Peers) scaling(run *figures.Run) (string, []byte, error) {
	title := "What is left of a rate as idle clients come"
	l := draw.Lines{Title: title, XLabel: "clients or VMs attached", YLabel: "% of the rate with the fewest", LogX: true, LogY: true}
	rows, err := rowsOf(run, figures.Key{Series: "scale-idle", Sender: "single"})
	if err != nil {
		return "", nil, err
	}
	for _, relay := range []string{rounds.Daemon, rounds.Old} {
		var pts []draw.Point
		for _, r := range rows {
			if pt, ok := pointOf(figures.Rate, r, clients(r.key)); ok && r.key.Relay == relay {
				pts = append(pts, pt)
			}
		}
		slices.SortFunc(pts, func(a, b draw.Point) int { return int(a.X - b.X) })
		if line, ok := fall(kindOf(relay).label, kindOf(relay).style, pts); ok {
			l.Lines = append(l.Lines, line)
		}
	}
	if len(l.Lines) == 0 {
		return title, nil, nil
	}
	colors := []draw.Style{
		{Color: draw.Green, Shape: 1},
		{Color: draw.Green, Shape: 2},
		{Color: draw.Purple, Shape: 1},
		{Color: draw.Purple, Shape: 2},
		{Color: draw.Orange, Shape: 2},
	}
	curves := p.published()
	for i, c := range curves {
		if line, ok := fall(c.label, colors[i%len(colors)], c.points); ok {
			l.Lines = append(l.Lines, line)
		}
	}
	return title, l.SVG(), nil
}

// published are the curves of socket_vmnet with several numbers of VMs.
func (p Peers) published() (curves []curve) {
	for _, s := range p.Sets {
		for _, r := range s.Rows {
			if r.Tool == "socket_vmnet" && r.Network == "shared" && (s.ID == "scaling" || s.ID == "issue-58") {
				curves = collect(curves, fmt.Sprintf("published: %s, %s", r.Host, r.VM), figures.Key{},
					draw.Point{X: float64(r.VMs), Y: r.HostToVM})
			}
		}
	}
	return curves
}
