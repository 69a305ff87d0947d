// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/draw"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// A plotKind is what a plot shows. Curves are of the set-ups that agree in all but what the horizontal axis has.
type plotKind struct {
	title, x, y string
	metric      figures.Metric
	bars        bool
	logX, logY  bool
	at          func(k figures.Key) float64 // the place on the horizontal axis, of curves
	group       func(k figures.Key) string  // the group, of bars
	trips       bool                        // the percentiles of round trips; then metric and at do not count
	keep        func(k figures.Key) bool    // leaves others out, if not nil
}

func frameSize(k figures.Key) float64   { return float64(k.Frame) }
func clients(k figures.Key) float64     { return float64(k.Clients) }
func activePairs(k figures.Key) float64 { return float64(k.Active) / 2 }
func sender(k figures.Key) string       { return senderLabel(k.Sender) }

// byTransport is the group of TCP between clients: the lines below its bars.
func byTransport(k figures.Key) string {
	lines := []string{k.Transport, mtu(k)}
	if s := shortSender(k); s != "" {
		lines = append(lines, s)
	}
	if k.Clients > 2 {
		lines = append(lines, fmt.Sprintf("of %d", k.Clients))
	}
	return strings.Join(lines, "\n")
}

func byDirection(k figures.Key) string {
	lines := []string{strings.ReplaceAll(k.Direction, "-", " "), "MTU " + mtu(k)}
	if s := shortSender(k); s != "" {
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

// shortSender is how a plot calls a sender.
func shortSender(k figures.Key) string {
	return strings.TrimPrefix(strings.TrimPrefix(k.Sender, figures.TCP), "-")
}

// noOthers leaves out the set-ups with further clients that only listen.
func noOthers(k figures.Key) bool { return k.Clients == k.Active }

func relayed(k figures.Key) bool { return k.Relay != rounds.Direct }

var plotKinds = map[string]plotKind{
	"pair":             {title: "Two clients: frames per second", x: "sender", y: "kf/s", metric: figures.Rate, bars: true, group: sender},
	"pair-cpu":         {title: "Two clients: CPU time of the relay", x: "sender", y: "ns per frame", metric: figures.CPU, bars: true, group: sender},
	"sizes-rate":       {title: "Frames per second by size", x: "frame, bytes", y: "kf/s", metric: figures.Rate, logX: true, logY: true, at: frameSize},
	"sizes-gbit":       {title: "Throughput by frame size", x: "frame, bytes", y: "Gbit/s", metric: figures.Gbit, logX: true, logY: true, at: frameSize},
	"sizes-cpu":        {title: "CPU time of the relay by frame size", x: "frame, bytes", y: "CPU seconds per GB", metric: figures.CPUGB, logX: true, logY: true, at: frameSize},
	"scale-idle":       {title: "One pair talks, the others are idle: frames per second", x: "clients attached", y: "kf/s", metric: figures.Rate, logX: true, logY: true, at: clients},
	"scale-idle-cpu":   {title: "One pair talks, the others are idle: CPU time of the relay", x: "clients attached", y: "ns per frame", metric: figures.CPU, logX: true, logY: true, at: clients},
	"scale-active":     {title: "All clients talk in pairs: frames per second together", x: "active pairs", y: "kf/s", metric: figures.Rate, logX: true, logY: true, at: activePairs},
	"scale-active-cpu": {title: "All clients talk in pairs: CPU time of the relay", x: "active pairs", y: "ns per frame", metric: figures.CPU, logX: true, logY: true, at: activePairs},
	"latency":          {title: "Round trips", x: "percentile", y: "µs", trips: true, logY: true, keep: noOthers},
	"tcp-latency":      {title: "Round trips over TCP", x: "percentile", y: "µs", trips: true, logY: true, keep: noOthers},
	"tcp":              {title: "TCP between two fake VMs", x: "transport, MTU, and clients if more than two", y: "Gbit/s", metric: figures.Gbit, bars: true, group: byTransport, keep: relayed},
	"tcp-cpu":          {title: "TCP between two fake VMs: CPU time of the relay", x: "transport, MTU, and clients if more than two", y: "CPU seconds per GB", metric: figures.CPUGB, bars: true, group: byTransport, keep: relayed},
	"gateway":          {title: "TCP through the gateway", x: "direction, and what the VMM does", y: "Gbit/s", metric: figures.Gbit, bars: true, group: byDirection},
	"gateway-cpu":      {title: "TCP through the gateway: CPU time of the relay", x: "direction, and what the VMM does", y: "CPU seconds per GB", metric: figures.CPUGB, bars: true, group: byDirection},
}

// makePlot draws the plot of a kind of the set-ups that match a query. It is empty if there is nothing to draw.
func makePlot(run *figures.Run, name, query string) (title string, svg []byte, err error) {
	kind, ok := plotKinds[name]
	if !ok {
		return "", nil, fmt.Errorf("there is no kind of plot %q", name)
	}
	q, err := figures.ParseQuery(query)
	if err != nil {
		return "", nil, err
	}
	rows, err := rowsOf(run, q)
	if err != nil {
		return "", nil, err
	}
	if kind.keep != nil {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !kind.keep(r.key) })
	}
	switch {
	case kind.bars:
		return kind.title, kind.drawBars(rows), nil
	case kind.trips:
		return kind.title, kind.drawTrips(rows), nil
	}
	return kind.title, kind.drawLines(rows), nil
}

// pointOf is the point of a set-up at x.
func pointOf(m figures.Metric, r row, x float64) (draw.Point, bool) {
	v, ok := m.Of(r.group)
	return draw.Point{X: x, Y: v.Value, Low: v.Min, High: v.Max}, ok
}

// A curve collects the rows of one line or one color of bars.
type curve struct {
	label  string
	key    figures.Key
	points []draw.Point
}

// collect adds a point to the curve with that label.
func collect(curves []curve, label string, k figures.Key, p draw.Point) []curve {
	i := slices.IndexFunc(curves, func(c curve) bool { return c.label == label })
	if i < 0 {
		return append(curves, curve{label, k, []draw.Point{p}})
	}
	curves[i].points = append(curves[i].points, p)
	return curves
}

// names are the parts by which the rows differ beyond the relay and what the axis has.
func names(rows []row) func(k figures.Key) string {
	parts := []func(k figures.Key) string{
		func(k figures.Key) string { return k.Transport }, shortSender,
		func(k figures.Key) string { return strings.ReplaceAll(k.Direction, "-", " ") },
	}
	parts = slices.DeleteFunc(parts, func(part func(figures.Key) string) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return part(r.key) != part(rows[0].key) })
	})
	return func(k figures.Key) string {
		label := []string{kindOf(k.Relay).label}
		for _, part := range parts {
			label = append(label, part(k))
		}
		return strings.Join(slices.DeleteFunc(label, func(s string) bool { return s == "" }), ", ")
	}
}

func (p plotKind) drawLines(rows []row) []byte {
	if len(rows) == 0 {
		return nil
	}
	name := names(rows)
	var curves []curve
	for _, r := range rows {
		if pt, ok := pointOf(p.metric, r, p.at(r.key)); ok {
			curves = collect(curves, name(r.key), r.key, pt)
		}
	}
	l := draw.Lines{Title: p.title, XLabel: p.x, YLabel: p.y, LogX: p.logX, LogY: p.logY}
	for i, c := range curves {
		l.Lines = append(l.Lines, draw.Line{Label: c.label, Style: styleOf(curves, i), Points: c.points})
	}
	return l.SVG()
}

// transportColors tell transports apart where several are in one plot: then the line tells the relay.
var transportColors = map[string]draw.Style{
	"stream": {Color: draw.Blue}, "passed": {Color: draw.Green}, "path": {Color: draw.Orange}, "connected": {Color: draw.Purple},
	"stream/passed": {Color: draw.Sky}, "passed/stream": {Color: draw.Brown},
}

// styleOf is the style of a curve among others: that of its relay, unless transports are compared. Senders differ in their points.
func styleOf(curves []curve, i int) draw.Style {
	k := curves[i].key
	style := kindOf(k.Relay).style
	several := slices.ContainsFunc(curves, func(c curve) bool { return c.key.Transport != k.Transport })
	if t, ok := transportColors[k.Transport]; ok && several && k.Relay != rounds.Old {
		style = draw.Style{Color: t.Color, Dashed: style.Dashed, Shape: style.Shape}
	}
	if slices.ContainsFunc(curves, func(c curve) bool { return c.key.Sender != k.Sender }) && k.Sender == "single" {
		style.Shape += 3
	}
	return style
}

func (p plotKind) drawBars(rows []row) []byte {
	b := draw.Bars{Title: p.title, XLabel: p.x, YLabel: p.y}
	var curves []curve
	for _, r := range rows {
		if _, ok := p.metric.Of(r.group); !ok {
			continue
		}
		group := p.group(r.key)
		at := slices.Index(b.Groups, group)
		if at < 0 {
			at = len(b.Groups)
			b.Groups = append(b.Groups, group)
		}
		pt, _ := pointOf(p.metric, r, float64(at))
		curves = collect(curves, kindOf(r.key.Relay).label, r.key, pt)
	}
	for _, c := range curves {
		b.Sets = append(b.Sets, draw.BarSet{Label: c.label, Style: kindOf(c.key.Relay).style, Bars: c.points})
	}
	return b.SVG()
}

// drawTrips has a curve over the percentiles for each relay, idle and beside a bulk transfer.
func (p plotKind) drawTrips(rows []row) []byte {
	if len(rows) == 0 {
		return nil
	}
	metrics := []figures.Metric{figures.P50, figures.P99, figures.P999}
	l := draw.Lines{Title: p.title, XLabel: p.x, YLabel: p.y, LogY: p.logY, Names: []string{"p50", "p99", "p99.9"}}
	for _, r := range rows {
		line := draw.Line{Label: kindOf(r.key.Relay).label + ", idle", Style: kindOf(r.key.Relay).style}
		line.Style.Dashed = true
		if loaded(r.key) {
			line.Label, line.Style.Dashed = kindOf(r.key.Relay).label+", load", false
		}
		for i, m := range metrics {
			if pt, ok := pointOf(m, r, float64(i)); ok {
				line.Points = append(line.Points, pt)
			}
		}
		l.Lines = append(l.Lines, line)
	}
	return l.SVG()
}
