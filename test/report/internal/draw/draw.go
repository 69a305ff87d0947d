// SPDX-License-Identifier: Apache-2.0

// Package draw draws the plots of the report as SVG: the same bytes for the same figures, on a white ground so that they can be
// read on a light and on a dark page, with a title and with every figure in words for those who do not see them.
package draw

import (
	"cmp"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a plot with its legend: about as wide as a page of Markdown is shown.
const (
	width, height = vg.Length(680), vg.Length(340)
	margin        = vg.Length(8)
)

// wider is how much more room a text may take in another font than in the one that it is measured with.
const wider = 1.15

// A Style tells one curve from the others, also for those who do not see its color.
type Style struct {
	Color  color.RGBA
	Dashed bool
	Shape  int // of its points, 0 to 5
}

// The colors that people with any color vision tell apart, after Okabe and Ito.
var (
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Red    = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Purple = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	Sky    = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	Orange = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	Brown  = color.RGBA{0x8c, 0x56, 0x4b, 0xff}
	Gray   = color.RGBA{0x55, 0x55, 0x55, 0xff}
)

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// shapes of points.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{},
}

func (s Style) line() draw.LineStyle {
	l := draw.LineStyle{Color: s.Color, Width: vg.Points(1.6)}
	if s.Dashed {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	return l
}

func (s Style) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.Color, Radius: vg.Points(3), Shape: shapes[s.Shape%len(shapes)]}
}

// A Point is a figure with the rounds that it comes from, which are drawn as an error bar.
type Point struct {
	X, Y, Low, High float64
}

// points are what the plotters want: places, and how far the rounds reach below and above.
type points []Point

func (p points) Len() int                    { return len(p) }
func (p points) XY(i int) (x, y float64)     { return p[i].X, p[i].Y }
func (p points) YError(i int) (_, _ float64) { return p[i].Y - p[i].Low, p[i].High - p[i].Y }

// newPlot has the fonts and colors of all plots.
func newPlot(xlabel, ylabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the whole plot's, with the legend, is drawn first
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = font.From(sans, 12)
		axis.Label.TextStyle.Color = ink
		axis.Tick.Label.Font = font.From(sans, 11)
		axis.Tick.Label.Color = ink
		axis.Color = ink
		axis.Tick.Color = ink
	}
	p.X.Label.Text, p.Y.Label.Text = xlabel, ylabel
	p.Title.TextStyle.Font = font.From(sans, 13)
	p.Title.TextStyle.Color = ink
	p.Legend.TextStyle.Font = font.From(sans, 11)
	p.Legend.TextStyle.Color = ink
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(5)
	return p
}

// svg draws the plot with the title above and the legend beside it.
func svg(p *plot.Plot, title, words string) []byte {
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)

	style := p.Title.TextStyle
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Max.Y}, title)
	c.Max.Y -= style.FontExtents().Height + vg.Points(10)

	legend := p.Legend
	legendWidth := legend.Rectangle(c).Size().X * wider
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(c, 0, -legendWidth-2*margin, 0, 0))
	legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-legendWidth, 0, 0, 0))
	return finish(canvas, title, words)
}

// extend makes lo and hi reach to x.
func extend(lo, hi *float64, x float64) {
	*lo, *hi = min(*lo, x), max(*hi, x)
}

// byX orders points.
func byX(a, b Point) int { return cmp.Compare(a.X, b.X) }
