// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"strconv"
	"strings"
)

// Format shows a figure with three digits that count, or all that are before the point; a zero without any behind it.
func Format(x float64) string {
	if x == 0 {
		return "0"
	}
	_, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', 2, 64), "e")
	e, _ := strconv.Atoi(exponent) // of what has been rounded, so that 9.999 is 10.0
	return strconv.FormatFloat(x, 'f', min(max(2-e, 0), 6), 64)
}

// Spread shows from where to where the rounds went, or nothing if there was one.
func (v Value) Spread() string {
	if v.N < 2 {
		return ""
	}
	return Format(v.Min) + "–" + Format(v.Max)
}
