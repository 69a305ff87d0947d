// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
)

func lines() Lines {
	return Lines{
		Title: "Rate & <more>", XLabel: "clients", YLabel: "kf/s", LogX: true, LogY: true,
		Lines: []Line{
			{"the daemon", Style{Color: Blue}, []Point{{X: 64, Y: 1700, Low: 0, High: 1800}, {X: 2, Y: 1900, Low: 1500, High: 1900}}},
			{"the old way", Style{Color: Red, Dashed: true, Shape: 9}, []Point{{X: 2, Y: 230, Low: 200, High: 230}, {X: 64, Y: 0}}},
			{"nothing", Style{}, nil},
		},
	}
}

func bars() Bars {
	return Bars{
		Title: "Bars", XLabel: "MTU", YLabel: "Gbit/s", Groups: []string{"1500", "9000"},
		Sets: []BarSet{{"a", Style{Color: Blue}, []Point{{X: 0, Y: 2, Low: 1, High: 2}, {X: 1, Y: 8, Low: 7, High: 9}}}, {"b", Style{Color: Red}, []Point{{X: 1, Y: 3, Low: 3, High: 3}}}},
	}
}

// parse reads an SVG to its end and returns the text of its title and description, and all text that is drawn.
func parse(t *testing.T, svg []byte) (title, words string, texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	var in string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return title, words, texts
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			in = x.Name.Local
		case xml.EndElement:
			in = ""
		case xml.CharData:
			switch in {
			case "title":
				title += string(x)
			case "desc":
				words += string(x)
			case "text":
				texts = append(texts, string(x))
			}
		}
	}
}

func TestAccessible(t *testing.T) {
	title, words, texts := parse(t, lines().SVG())
	assert.Equal(t, "Rate & <more>", title)
	assert.Equal(t, "kf/s by clients. the daemon: 1900 at 2, 1700 at 64. the old way: 230 at 2.", words)
	for _, want := range []string{"Rate & <more>", "clients", "kf/s", "the daemon", "the old way", "2", "64", "1000"} {
		assert.Contains(t, texts, want)
	}
	assert.NotContains(t, texts, "nothing", "a curve without points has no place in the legend")

	title, words, texts = parse(t, bars().SVG())
	assert.Equal(t, "Bars", title)
	assert.Equal(t, "Gbit/s by MTU. a: 2.00 at 1500, 8.00 at 9000. b: 3.00 at 9000.", words)
	assert.Subset(t, texts, []string{"1500", "9000", "a", "b", "0", "2", "4"})

	named := Lines{YLabel: "µs", XLabel: "percentile", Names: []string{"p50", "p99"}, Lines: []Line{{Label: "a", Points: []Point{{0, 1, 1, 1}, {1, 2, 2, 2}}}}}
	_, words, texts = parse(t, named.SVG())
	assert.Equal(t, "µs by percentile. a: 1.00 at p50, 2.00 at p99.", words)
	assert.Subset(t, texts, []string{"p50", "p99"})
}

// TestSelfContained: one file, the same each time, on a ground of its own, with fonts that every system has.
func TestSelfContained(t *testing.T) {
	for _, svg := range [][]byte{lines().SVG(), bars().SVG()} {
		s := string(svg)
		assert.Contains(t, s, output.Mark)
		assert.Contains(t, s, `role="img" aria-labelledby="title words"`)
		assert.Contains(t, s, "sans-serif")
		assert.NotContains(t, s, "font-family:Liberation", "each text has the other fonts")
		assert.NotRegexp(t, `href=|url\(|<script|<image`, s)
		first := s[strings.Index(s, "<path"):]
		assert.True(t, strings.HasPrefix(first, `<path d="M0,0L680,0L680,340L0,340Z" style="fill:#FFFFFF"`), "white all over")
	}
	first, second := lines().SVG(), lines().SVG()
	assert.Equal(t, first, second)
	first, second = bars().SVG(), bars().SVG()
	assert.Equal(t, first, second)
}

// TestInside: nothing is drawn beside the canvas, where nobody would see it.
func TestInside(t *testing.T) {
	number := regexp.MustCompile(`[ML]([-0-9.e+]+),([-0-9.e+]+)`)
	long := lines()
	long.Lines[0].Label = strings.Repeat("a long name ", 3)
	for _, svg := range [][]byte{lines().SVG(), bars().SVG(), long.SVG()} {
		for _, m := range number.FindAllStringSubmatch(string(svg), -1) {
			x, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			assert.True(t, x >= -1 && x <= float64(width)+1, "x of %s", m[0])
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	assert.Nil(t, Lines{}.SVG())
	assert.Nil(t, Lines{LogY: true, Lines: []Line{{Points: []Point{{X: 1, Y: 0}}}}}.SVG())
	assert.Nil(t, Bars{}.SVG())
	assert.Nil(t, Bars{Groups: []string{"a"}, Sets: []BarSet{{Label: "b"}}}.SVG())
}

// TestExtremes: whatever is measured can be drawn.
func TestExtremes(t *testing.T) {
	for _, c := range []struct {
		name string
		p    []Point
	}{
		{"one point", []Point{{X: 2, Y: 5, Low: 5, High: 5}}},
		{"tiny", []Point{{X: 1, Y: 1e-9, Low: 1e-9, High: 1e-9}, {X: 2, Y: 2e-9, Low: 1e-9, High: 3e-9}}},
		{"huge", []Point{{X: 1, Y: 1e15, Low: 1, High: 1e15}, {X: 1e6, Y: 1, Low: 0, High: 1}}},
		{"a linear 0", []Point{{X: 1, Y: 0}, {X: 2, Y: 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, log := range []bool{false, true} {
				l := Lines{Title: "t", LogX: log, LogY: log, Lines: []Line{{Label: "a", Points: c.p}}}
				if svg := l.SVG(); svg != nil {
					parse(t, svg)
					assert.NotContains(t, string(svg), "NaN")
					assert.NotContains(t, string(svg), "Inf")
				} else {
					assert.True(t, log, "only a 0 on a logarithmic axis cannot be drawn")
				}
			}
		})
	}
}

func TestTicks(t *testing.T) {
	var labels []string
	for _, tick := range linearTicks(0, 2600) {
		labels = append(labels, tick.Label)
	}
	assert.Equal(t, []string{"0", "500", "1000", "1500", "2000", "2500"}, labels)
	labels = nil
	for _, tick := range logTicks(3, 40) {
		labels = append(labels, tick.Label)
	}
	assert.Equal(t, []string{"5", "10", "20"}, labels)
	assert.LessOrEqual(t, len(logTicks(1e-12, 1e15)), 100)
}
