// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

var severityStyles = map[string]string{status.Error: red, status.Warning: yellow}

// maxNamed is how many clients a problem names.
const maxNamed = 8

// health tells of what is wrong, with what to do.
func (p *page) health(s *status.Status) {
	if len(s.Health) == 0 {
		p.whole("health: nothing to report")
		return
	}
	p.whole(fmt.Sprintf("health: %s", printable.Count(len(s.Health), "problem")))
	for _, problem := range s.Health {
		p.whole("")
		p.line(cmp.Or(severityStyles[problem.Severity], cyan), problem.Severity, " "+problem.Code+": "+problem.Text+about(s, problem), 2)
		for _, step := range problem.Fix {
			if command, ok := strings.CutPrefix(step, status.CommandIndent); ok {
				p.whole("      " + command)
				continue
			}
			p.line("", "  - ", step, 4)
		}
	}
}

// about is since when, and whom it concerns.
func about(s *status.Status, problem status.Problem) string {
	since := ""
	if !problem.Since.IsZero() && !s.Now.IsZero() {
		since = "for " + humanDuration(s.Now.Sub(problem.Since))
	}
	if text := list(since, named(s, problem.Clients)); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// named are clients by number and name.
func named(s *status.Status, ids []uint64) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		text := strconv.FormatUint(id, 10)
		i := slices.IndexFunc(s.Clients, func(c status.Client) bool { return c.ID == id })
		if i >= 0 && NameOf(s.Clients[i]) != "" {
			text += " " + NameOf(s.Clients[i])
		}
		names = append(names, text)
	}
	if more := len(ids) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(ids) == 1 {
		return "client " + names[0]
	}
	return printable.Behind("clients ", list(names...))
}
