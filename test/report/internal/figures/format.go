// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"strconv"
)

// Format shows a figure with three digits that count, or all that are before the point.
func Format(x float64) string {
	digits := 0
	if a := math.Abs(x); a > 0 && a < 99.95 {
		digits = min(2-int(math.Floor(math.Log10(a))), 4)
	}
	s := strconv.FormatFloat(x, 'f', max(digits, 0), 64)
	if x == 0 {
		return "0"
	}
	return s
}

// Spread shows from where to where the rounds went, or nothing if there was one.
func (v Value) Spread() string {
	if v.N < 2 {
		return ""
	}
	return Format(v.Min) + "–" + Format(v.Max)
}
