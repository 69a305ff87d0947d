// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinks: what the pages link to in this tree is there, headings too.
func TestLinks(t *testing.T) {
	pages := append(slices.DeleteFunc(tracked(t), func(path string) bool { return filepath.Ext(path) != ".md" }), "attach/README.md")
	require.Greater(t, len(pages), 20)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, fault := range brokenLinks(page, string(text)) {
			t.Error(fault)
		}
	}
}

// TestBrokenLinks: each kind of broken link is found, and nothing else.
func TestBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.md"), []byte("# One `two` (three)\n\n## Same\n\n## Same\n"), 0o600))
	for _, c := range []struct {
		name, text, want string
	}{
		{"a page", "[x](other.md)", ""},
		{"a heading", "[x](other.md#one-two-three)", ""},
		{"the second of a name", "[x](other.md#same-1)", ""},
		{"a heading of the page itself", "# The *top*\n\n[x](#the-top)", ""},
		{"elsewhere", "[x](https://example.org/none#none) [y](mailto:a@example.org)", ""},
		{"in a block", "```\n[x](none.md)\n```", ""},
		{"in code", "`[x](none.md)`", ""},
		{"no page", "text\n[x](none.md)", "page.md:2: none.md"},
		{"no picture", "![x](none.svg)", "page.md:1: none.svg"},
		{"no heading", "[x](other.md#none)", "page.md:1: other.md#none"},
		{"no heading here", "# Top\n\n[x](#none)", "page.md:3: #none"},
		{"a third of a name", "[x](other.md#same-2)", "other.md#same-2"},
		{"a reference", "[x]: none.md", "page.md:1: none.md"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := brokenLinks(filepath.Join(dir, "page.md"), c.text)
			if c.want == "" {
				assert.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			assert.Contains(t, faults[0], c.want)
		})
	}
}

var (
	inlineLink    = regexp.MustCompile(`\]\(<?([^()\s<>]+)>?(?:\s+"[^"]*")?\)`)
	referenceLink = regexp.MustCompile(`^\[[^]]+\]:\s+(\S+)`)
	htmlLink      = regexp.MustCompile(`(?:src|href|srcset)="([^"]+)"`)
	codeSpan      = regexp.MustCompile("`[^`]*`")
)

// brokenLinks lists the links of a page that lead nowhere.
func brokenLinks(page, text string) []string {
	var faults []string
	for n, line := range prose(text) {
		line = codeSpan.ReplaceAllString(line, "")
		for _, re := range []*regexp.Regexp{inlineLink, referenceLink, htmlLink} {
			for _, m := range re.FindAllStringSubmatch(line, -1) {
				if why := follow(page, text, m[1]); why != "" {
					faults = append(faults, fmt.Sprintf("%s:%d: %s: %s", page, n+1, m[1], why))
				}
			}
		}
	}
	return faults
}

// prose are the lines of a page, with those in blocks of code left empty.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, l := range lines {
		trimmed := strings.TrimSpace(l)
		switch {
		case fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			fence = trimmed[:3]
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
		case fence == "":
			continue
		}
		lines[i] = ""
	}
	return lines
}

// follow tells why a link leads nowhere, if it does.
func follow(page, text, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if path, ours := strings.CutPrefix(link, "https://"+module+"/blob/main/"); ours {
		return follow("README.md", text, path) // from a page that is installed to what is not
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	if u.Path != "" {
		target := filepath.Join(filepath.Dir(page), u.Path)
		fi, err := os.Stat(target)
		if err != nil {
			return "there is no such file"
		}
		if u.Fragment == "" || fi.IsDir() || !strings.HasSuffix(target, ".md") {
			return ""
		}
		b, err := os.ReadFile(target)
		if err != nil {
			return err.Error()
		}
		text = string(b)
	}
	if !anchors(text)[u.Fragment] {
		return "there is no such heading"
	}
	return ""
}

var heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)

// anchors are the names by which headings can be linked to, as GitHub makes them.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, line := range prose(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, inlineLinkText.ReplaceAllString(m[1], "$1"))
		unique := name
		for n := 1; names[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		names[unique] = true
	}
	return names
}

// inlineLinkText finds links in headings, of which only the text counts.
var inlineLinkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
