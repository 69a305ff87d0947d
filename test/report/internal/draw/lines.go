// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// A Line is a curve.
type Line struct {
	Label  string
	Style  Style
	Points []Point
}

// Lines are curves over numbers, or over Names if there are any: then X counts them from 0.
type Lines struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	Names                 []string
	Lines                 []Line
}

// SVG draws the curves. There is no plot, nil, if no curve has a point that can be shown.
func (l Lines) SVG() []byte {
	p := newPlot(l.XLabel, l.YLabel)
	var xs []float64
	low, high := math.Inf(1), math.Inf(-1)
	p.Add(grid())
	for i := range l.Lines {
		line := &l.Lines[i]
		line.Points = l.shown(line.Points)
		if len(line.Points) == 0 {
			continue
		}
		for _, pt := range line.Points {
			xs = append(xs, pt.X)
			extend(&low, &high, pt.Low)
			extend(&low, &high, pt.High)
		}
		addLine(p, *line)
	}
	if len(xs) == 0 {
		return nil
	}
	l.scaleX(p, xs)
	scaleY(p, low, high, l.LogY)
	return svg(p, l.Title, l.words())
}

// shown are the points that the axes can show, in order.
func (l Lines) shown(pts []Point) []Point {
	pts = slices.DeleteFunc(slices.Clone(pts), func(p Point) bool { return l.LogX && p.X <= 0 || l.LogY && p.Y <= 0 })
	for i, p := range pts {
		switch {
		case !l.LogY:
		case p.Low <= 0: // a round that stood still
			pts[i].Low = p.Y
		default: // the plotter has the whisker's end from its length, which has not the digits for more
			pts[i].Low = max(p.Low, p.Y*1e-9)
		}
	}
	slices.SortStableFunc(pts, byX)
	return pts
}

// addLine adds a curve, its points and their error bars.
func addLine(p *plot.Plot, l Line) {
	line, dots := must(plotter.NewLine(points(l.Points))), must(plotter.NewScatter(points(l.Points)))
	bars := must(plotter.NewYErrorBars(points(l.Points)))
	line.LineStyle, dots.GlyphStyle = l.Style.line(), l.Style.glyph()
	bars.LineStyle = draw.LineStyle{Color: l.Style.Color, Width: vg.Points(0.8)}
	bars.CapWidth = vg.Points(4)
	p.Add(bars, line, dots)
	p.Legend.Add(l.Label, line, dots)
}

// must is for the plotters' checks of what has been checked: that there are points, and that they are numbers.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = faint, faint
	return g
}

// scaleX puts a tick at each place where there are points.
func (l Lines) scaleX(p *plot.Plot, xs []float64) {
	slices.Sort(xs)
	xs = slices.Compact(xs)
	var ticks plot.ConstantTicks
	for _, x := range xs {
		label := plain(x)
		if i := int(x); l.Names != nil && i < len(l.Names) {
			label = l.Names[i]
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: label})
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = xs[0], xs[len(xs)-1]
	if l.LogX {
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max = p.X.Min/1.15, p.X.Max*1.15
	} else {
		p.X.Min, p.X.Max = p.X.Min-0.2, p.X.Max+0.2
	}
}

// scaleY begins at 0, or on a logarithmic axis at half the lowest.
func scaleY(p *plot.Plot, low, high float64, log bool) {
	if !log {
		p.Y.Min, p.Y.Max = 0, high*1.08
		p.Y.Tick.Marker = plot.TickerFunc(linearTicks)
		return
	}
	p.Y.Scale = plot.LogScale{}
	p.Y.Min, p.Y.Max = low/1.5, high*1.5
	p.Y.Tick.Marker = plot.TickerFunc(logTicks)
}

// linearTicks are at multiples of 1, 2 or 5 times a power of ten.
func linearTicks(low, high float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(m*step) >= 4 {
			step *= m
			break
		}
	}
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: plain(i * step)})
	}
	return ticks
}

// logTicks are at 1, 2, 5, 10, ..., with labels at all of them if there are few.
func logTicks(low, high float64) (ticks []plot.Tick) {
	few := high/low < 2000
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v < low || v > high {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || few {
				t.Label = plain(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// plain shows a round number without zeros behind the point.
func plain(v float64) string {
	s := fmt.Sprintf("%.6f", v)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// words are the figures of the plot in text.
func (l Lines) words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by %s.", l.YLabel, l.XLabel)
	for _, line := range l.Lines {
		if len(line.Points) == 0 {
			continue
		}
		fmt.Fprintf(&b, " %s:", line.Label)
		for i, pt := range line.Points {
			x := plain(pt.X)
			if n := int(pt.X); l.Names != nil && n < len(l.Names) {
				x = l.Names[n]
			}
			fmt.Fprintf(&b, "%s %s at %s", [...]string{"", ","}[min(i, 1)], figures.Format(pt.Y), x)
		}
		b.WriteString(".")
	}
	return b.String()
}
