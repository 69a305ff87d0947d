// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// command is a step that is typed.
func command(format string, args ...any) string {
	return status.CommandIndent + fmt.Sprintf(format, args...)
}

// socket is the daemon's, for a command.
func (v *view) socket() string { return printable.Quote(v.Daemon.Socket) }

// kick is the command that ends the connection of the first of list.
func (v *view) kick(list []*status.Client) string {
	return command("socket_vmnet2 kick %d %s", list[0].ID, v.socket())
}

// which are the clients that yes holds for.
func (v *view) which(yes func(*status.Client) bool) (list []*status.Client) {
	for i := range v.Clients {
		if c := &v.Clients[i]; yes(c) {
			list = append(list, c)
		}
	}
	return list
}

// was reports whether the problem was found on the last look.
func (v *view) was(code, of string) bool { return !v.since(code, of).IsZero() }

// since is since when it is there.
func (v *view) since(code, of string) time.Time { return v.episodes[code+" "+of].since }

// name tells a client as the log does, and by what else is known of it.
func name(c *status.Client) string {
	known := strings.Trim(cmp.Or(c.Name, c.Hostname)+", "+c.MAC, ", ")
	if known == "" {
		return fmt.Sprintf("client %d", c.ID)
	}
	return fmt.Sprintf("client %d (%s)", c.ID, known)
}

// maxNamed is how many clients a sentence names.
const maxNamed = 4

// names tells several clients, by their numbers.
func names(list []*status.Client) string {
	if len(list) == 1 {
		return name(list[0])
	}
	return fmt.Sprintf("%d clients (%s)", len(list), several(list, ", ", func(c *status.Client) string { return fmt.Sprint(c.ID) }))
}

// eachName names all of list, or the first of them.
func eachName(list []*status.Client) string { return several(list, " and ", name) }

// several joins up to maxNamed of a list; last is in front of the last of all.
func several[T any](list []T, last string, name func(T) string) string {
	text := ""
	for i, c := range list {
		switch {
		case i == maxNamed:
			return text + fmt.Sprintf(" and %d more", len(list)-i)
		case i > 0 && i == len(list)-1:
			text += last
		case i > 0:
			text += ", "
		}
		text += name(c)
	}
	return text
}

// verb is one for a single client, else many.
func verb(list []*status.Client, one, many string) string {
	if len(list) == 1 {
		return one
	}
	return many
}

// span tells a duration to a person.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(int(d.Round(time.Second)/time.Second), 1))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	}
	return fmt.Sprintf("%d h", int(d/time.Hour))
}
