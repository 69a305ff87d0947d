// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

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
	for ; i < len(units)-1 && v >= base; i++ {
		v /= base
	}
	switch {
	case i > 0 && v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + units[i]
	case i < len(units)-1 && math.Round(v) >= base: // 999,999 is 1.0M, not 1000k
		return "1.0" + units[i+1]
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
	if math.IsNaN(s) {
		s = 0
	}
	return humanDuration(time.Duration(min(max(s, 0), maxSeconds) * float64(time.Second)))
}

// Clean is text as one line that moves no cursor. All that is shown passes through it, since guests and clients choose their names.
func Clean(text string) string { return printable.Line(text, math.MaxInt) }

// wide are the blocks whose characters take two cells of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

// cells is how many cells of a terminal a character takes.
func cells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(unicode.M, r):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// width is how many cells a text takes.
func width(text string) (n int) {
	for _, r := range text {
		n += cells(r)
	}
	return n
}

// cut is the begin of text in at most n cells, with a mark if that is not all.
func cut(text string, n int) string {
	if width(text) <= n {
		return text
	}
	used := 0
	for i, r := range text {
		if used += cells(r); used > n-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// pad fills text up to n cells, in front of it if right is set.
func pad(text string, n int, right bool) string {
	fill := strings.Repeat(" ", max(0, n-width(text)))
	if right {
		return fill + text
	}
	return text + fill
}
