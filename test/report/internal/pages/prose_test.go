// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a template may say in digits: nothing but these names. Every figure is a call.
var parameters = []string{"socket_vmnet2", "IPv4", "IPv6", "p50", "p99", "p999"}

var (
	calls    = regexp.MustCompile(`\{\{[^}]*\}\}`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	address  = regexp.MustCompile(`\]\([^)]*\)`)
	digit    = regexp.MustCompile(`[0-9]`)
	// bare is a figure that hides in a code span.
	bare = regexp.MustCompile("^`[~≈<>≤≥]? ?[0-9][0-9.,]* ?[A-Za-zµ%/]*`$")
)

// figuresIn are the lines of a template's prose that have a figure written out.
func figuresIn(text string) (bad []string) {
	for line := range strings.SplitSeq(text, "\n") {
		s := calls.ReplaceAllString(line, "")
		s = codeSpan.ReplaceAllStringFunc(s, func(span string) string {
			if bare.MatchString(span) {
				return span
			}
			return ""
		})
		s = address.ReplaceAllString(s, "]")
		for _, p := range slices.Backward(parameters) { // p999 before p99
			s = strings.ReplaceAll(s, p, "")
		}
		if digit.MatchString(s) {
			bad = append(bad, line)
		}
	}
	return bad
}

// TestProseHasNoFigures holds the rule that makes the pages trustworthy: a figure that nobody computed cannot be on them.
func TestProseHasNoFigures(t *testing.T) {
	files, err := fs.Glob(templates, "templates/*")
	require.NoError(t, err)
	require.Greater(t, len(files), 3)
	for _, f := range files {
		b, err := templates.ReadFile(f)
		require.NoError(t, err)
		for _, line := range figuresIn(string(b)) {
			t.Errorf("%s has a figure in its text: %q: make it a call, or name it in parameters if it is none", f, line)
		}
	}
}

func TestFiguresIn(t *testing.T) {
	for _, c := range []struct {
		name, text string
		bad        bool
	}{
		{"no figure", "The floor is slow.", false},
		{"a figure", "It is 2.5 times as fast.", true},
		{"in a heading", "## 2x faster", true},
		{"a call", `It is {{ratio . "rate" "series=pair frame=1514" "series=pair frame=64"}} of it.`, false},
		{"a figure beside a call", `{{summary}} and 3 more`, true},
		{"code", "Run `make bench-64 --rounds 9`.", false},
		{"a figure as code", "It takes `12 ns`.", true},
		{"a ratio as code", "It takes `1.5x`.", true},
		{"an address", "[raw](raw/bench-2026.json)", false},
		{"a figure as the text of an address", "[12 ns](raw/bench.json)", true},
		{"the project", "socket_vmnet2 and IPv6", false},
		{"a percentile", "p99 is high", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.bad, len(figuresIn(c.text)) > 0, c.text)
		})
	}
}

// TestOldWayIsNamed: whatever shows the old way says that it is not socket_vmnet itself.
func TestOldWayIsNamed(t *testing.T) {
	tables := 0
	for name, b := range makeSample(t, sampleRuns()) {
		if strings.HasSuffix(name, ".svg") {
			assert.NotContains(t, strings.ReplaceAll(string(b), "old way (our stand-in)", ""), "old way", name)
			continue
		}
		blocks := strings.Split(string(b), "\n\n")
		for i, block := range blocks {
			if strings.HasPrefix(block, "|") && strings.Contains(block, "old way") {
				tables++
				require.Less(t, i+1, len(blocks), name)
				assert.Contains(t, blocks[i+1], oldNote, "below a table of %s", name)
			}
		}
	}
	assert.Greater(t, tables, 8)
}

// TestAllQueriesFind shows that each call of the templates finds something in the sample, so that a misspelt query is noticed.
func TestAllQueriesFind(t *testing.T) {
	files := makeSample(t, sampleRuns())
	var missing []string
	for name, b := range files {
		if strings.HasSuffix(name, ".md") && strings.Contains(string(b), notMeasured) {
			missing = append(missing, name)
		}
	}
	assert.Empty(t, missing, "the sample has rounds of every series")
}
