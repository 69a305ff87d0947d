// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// A BarSet is the bars of one color, at most one for each group.
type BarSet struct {
	Label string
	Style Style
	Bars  []Point // X counts the groups from 0
}

// Bars are groups of bars, which begin at 0.
type Bars struct {
	Title, XLabel, YLabel string
	Groups                []string
	Sets                  []BarSet
}

// groupWidth is how much of a group's place its bars take.
const groupWidth = 0.8

// SVG draws the bars. There is no plot, nil, if there is no bar.
func (b Bars) SVG() []byte {
	p := newPlot(b.XLabel, b.YLabel)
	g := grid()
	g.Vertical.Color = nil
	p.Add(g)
	each := groupWidth / float64(max(len(b.Sets), 1))
	var high float64
	for i, set := range b.Sets {
		if len(set.Bars) == 0 {
			continue
		}
		set.Bars = slices.Clone(set.Bars)
		for j, bar := range set.Bars {
			high = max(high, bar.Y, bar.High)
			set.Bars[j].X += (float64(i)+0.5)*each - groupWidth/2
		}
		boxes := boxes{set.Bars, each * 0.92, set.Style}
		whiskers := must(plotter.NewYErrorBars(points(set.Bars)))
		whiskers.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(0.8)}
		whiskers.CapWidth = vg.Points(5)
		p.Add(boxes, whiskers)
		p.Legend.Add(set.Label, boxes)
	}
	if high == 0 {
		return nil
	}
	var ticks plot.ConstantTicks
	for i, name := range b.Groups {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
	}
	p.X.Tick.Marker, p.X.Tick.Length = ticks, 0
	if len(b.Groups) > 5 {
		p.X.Tick.Label.Font.Size = 9.5
	}
	p.X.Min, p.X.Max = -0.5, float64(len(b.Groups))-0.5
	scaleY(p, 0, high, false)
	return svg(p, b.Title, b.words())
}

// boxes are bars whose width is in the units of the axis.
type boxes struct {
	bars  []Point
	width float64
	style Style
}

func (b boxes) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for _, bar := range b.bars {
		left, right := tx(bar.X-b.width/2), tx(bar.X+b.width/2)
		bottom, top := ty(0), ty(bar.Y)
		c.FillPolygon(b.style.Color, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
	}
}

// Thumbnail draws the bar of the legend.
func (b boxes) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.style.Color, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
}

// words are the figures of the plot in text.
func (b Bars) words() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s by %s.", b.YLabel, b.XLabel)
	for _, set := range b.Sets {
		if len(set.Bars) == 0 {
			continue
		}
		fmt.Fprintf(&s, " %s:", set.Label)
		for i, bar := range set.Bars {
			group := b.Groups[int(bar.X)]
			fmt.Fprintf(&s, "%s %s at %s", [...]string{"", ","}[min(i, 1)], figures.Format(bar.Y), strings.ReplaceAll(group, "\n", ", "))
		}
		s.WriteString(".")
	}
	return s.String()
}
