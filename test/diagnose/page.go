// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// pagePath is the page, from the root of the repository.
const pagePath = "docs/diagnosing.md"

// pageTemplate is its prose. {{show "SCENE" "SECTION"}} stands for what was typed and printed there.
//
//go:embed page.md.tmpl
var pageTemplate string

// fillPage puts what the scenes printed into the prose. Every section must be on the page.
func fillPage(results []*result) (string, error) {
	var used []string
	show := func(scene, section string) (string, error) {
		for _, r := range results {
			if text, ok := r.get(section); ok && r.Scene == scene {
				used = append(used, scene+" "+section)
				return "```text\n" + text + "```", nil
			}
		}
		return "", fmt.Errorf("no section %q of a scene %q", section, scene)
	}
	t, err := template.New("page").Funcs(template.FuncMap{"show": show}).Parse(pageTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", err
	}
	for _, r := range results {
		for _, s := range r.Sections {
			if !slices.Contains(used, r.Scene+" "+s.Name) {
				return "", fmt.Errorf("section %q of the scene %q is not on the page", s.Name, r.Scene)
			}
		}
	}
	return b.String(), nil
}

// What differs from run to run without meaning anything, and what stands for it in a comparison. The order matters.
var varying = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b`), "MAC"},
	{regexp.MustCompile(`\bv\d[\w.+-]*`), "VERSION"}, // of the programs
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s|m|h|d)\b`), "#"}, // 3m12s
	{regexp.MustCompile(`\d+(\.\d+)?( ?(B|[KMGT]i?B)|[kMG])\b`), "#"},
	{regexp.MustCompile(`\d+(\.\d+)*`), "#"},
	{regexp.MustCompile(`#(#| # ?)*#`), "#"}, // 3m12s
	{regexp.MustCompile(`# (frame|time|client|message|address|second)s?\b`), "# $1"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns are as wide as what is in them
	{regexp.MustCompile(`-{3,}`), "---"},
}

// shapeOf is text without what varies: two runs of the same programs give the same.
func shapeOf(text string) string {
	if u, err := user.Current(); err == nil {
		text = regexp.MustCompile(`\b(`+regexp.QuoteMeta(u.Username)+`|root|nobody)\b`).ReplaceAllString(text, "USER")
	}
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.by)
	}
	return text
}

// differences are the first lines in which the shapes of two pages differ, empty if they do not.
func differences(is, should string) string {
	a, b := strings.Split(shapeOf(is), "\n"), strings.Split(shapeOf(should), "\n")
	plain := strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("line %d is missing:\n  %s\n", i+1, b[i])
		case i >= len(b):
			return fmt.Sprintf("line %d is too much:\n  %s\n", i+1, plain[i])
		case a[i] != b[i]:
			return fmt.Sprintf("line %d of the page is\n  %s\nand should look like\n  %s\n", i+1, plain[i], b[i])
		}
	}
	return ""
}
