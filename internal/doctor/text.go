// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// WriteJSON writes the report as one document.
func (r *Report) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// severityWidth is that of the longest of the words.
const severityWidth = len(status.Warning)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "socket_vmnet2 %s on %s, for the user %s", r.Version, r.System, r.User)
	if r.Root != "" {
		fmt.Fprintf(&b, ", below %s", r.Root)
	}
	b.WriteString("\n")
	for _, group := range []string{groupPrograms, groupDaemons, groupNetwork, groupSystem} {
		r.writeGroup(&b, group)
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nNot checked\n")
		for _, s := range r.Skipped {
			text := s.Check + ": " + s.Why
			if s.Root {
				text += " (run with sudo for that)"
			}
			wrap(&b, strings.Repeat(" ", len("  ")+severityWidth+len("  ")), text)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// writeGroup writes what the checks of a group found.
func (r *Report) writeGroup(b *strings.Builder, group string) {
	begun := false
	for _, c := range Checks() {
		if c.Group != group {
			continue
		}
		for _, f := range r.Findings {
			if f.Check != c.ID {
				continue
			}
			if !begun {
				fmt.Fprintf(b, "\n%s\n", group)
				begun = true
			}
			wrap(b, fmt.Sprintf("  %-*s  ", severityWidth, f.Severity), f.Check+": "+f.Text)
			for _, fix := range f.Fix {
				first := strings.Repeat(" ", len("  ")+severityWidth+len("  "))
				if line, ok := strings.CutPrefix(fix, commandIndent); ok {
					fmt.Fprintf(b, "%s      %s\n", first, line) // in one line, to be copied
					continue
				}
				wrap(b, first+"  - ", fix)
			}
		}
	}
}

// width is that of the text, in characters: a page of man has less, a line of the documentation a little more.
const width = 118

// wrap writes words behind first, and goes on below them.
func wrap(b *strings.Builder, first, text string) {
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString(first)
			at = len(first)
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", len(first)))
			at = len(first)
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteString("\n")
}

// verdict sums it up.
func (r *Report) verdict() string {
	count := map[string]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	var parts []string
	for _, s := range []string{status.Error, status.Warning, status.Notice} {
		switch n := count[s]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+s)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	if len(parts) == 0 {
		return "Nothing is wrong, as far as was checked."
	}
	return "Found " + list(parts) + "."
}
