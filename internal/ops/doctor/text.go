// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// severityWidth is that of the longest of the words.
const severityWidth = len(status.Warning)

// margin is in front of what belongs to a finding.
var margin = strings.Repeat(" ", len("  ")+severityWidth+len("  "))

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "socket_vmnet2 %s on %s, for the user %s", r.Version, r.System, r.User)
	if r.Root != "" {
		fmt.Fprintf(&b, ", below %s", r.Root)
	}
	b.WriteString("\n")
	group := ""
	for _, f := range r.Findings {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		f.write(&b)
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nNot checked\n")
	}
	for _, s := range r.Skipped {
		text := s.Check + ": " + s.Why
		if s.Root {
			text += " (run with sudo for that)"
		}
		wrap(&b, margin, text)
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes a finding and its steps. A command is one line, so that it can be copied.
func (f finding) write(b *strings.Builder) {
	wrap(b, fmt.Sprintf("  %-*s  ", severityWidth, f.Severity), f.Check+": "+f.Text)
	for _, fix := range f.Fix {
		if line, ok := strings.CutPrefix(fix, status.CommandIndent); ok {
			fmt.Fprintf(b, "%s      %s\n", margin, line)
		} else {
			wrap(b, margin+"  - ", fix)
		}
	}
}

// width is that of the text, in characters: a page of man has less, a line of the documentation a little more.
const width = 118

// wrap writes words behind first, and goes on below them.
func wrap(b *strings.Builder, first, text string) {
	for _, line := range printable.Wrap(text, width-len(first)) {
		b.WriteString(first + line + "\n")
		first = strings.Repeat(" ", len(first))
	}
}

// verdict sums it up.
func (r *Report) verdict() string {
	found := map[string]int{}
	for _, f := range r.Findings {
		found[f.Severity]++
	}
	var parts []string
	for _, s := range []string{status.Error, status.Warning, status.Notice} {
		if found[s] > 0 {
			parts = append(parts, printable.Count(found[s], s))
		}
	}
	if len(parts) == 0 {
		return "Nothing is wrong, as far as was checked."
	}
	return "Found " + printable.List(parts) + "."
}

// maxLine is the longest line of a program's answer that is shown, in bytes.
const maxLine = 200

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), maxLine)]
}
