// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A Key is what the rounds of one set-up have in common. In a query, empty and 0 mean any.
type Key struct {
	Series, Transport, Sender, Direction string
	Frame, Clients, Active               int
	Relay, Setup                         string
}

// The senders of rounds in which a kernel's stack sends, by what the VMM in between does: a frame a write, several frames a write,
// or cutting and joining segments as a network card does. The rounds themselves have the sender tcp, and the name of the set-up
// tells.
const (
	TCP        = "tcp"
	TCPBatch   = "tcp-batch"
	TCPOffload = "tcp-offload"
)

// KeyOf is the key of a round.
func KeyOf(r rounds.Round) Key {
	sender := r.Sender
	switch {
	case sender == TCP && strings.Contains(r.Setup, " batch "):
		sender = TCPBatch
	case sender == TCP && strings.Contains(r.Setup, " offload "):
		sender = TCPOffload
	}
	return Key{
		Series: r.Series, Transport: r.Transport, Sender: sender, Direction: r.Direction,
		Frame: r.Frame, Clients: r.Clients, Active: r.Active, Relay: r.Relay, Setup: r.Setup,
	}
}

// Matches tells whether k is what q asks for.
func (q Key) Matches(k Key) bool {
	text := func(want, have string) bool { return want == "" || want == have }
	number := func(want, have int) bool { return want == 0 || want == have }
	return text(q.Series, k.Series) && text(q.Transport, k.Transport) && text(q.Sender, k.Sender) &&
		text(q.Direction, k.Direction) && text(q.Relay, k.Relay) && text(q.Setup, k.Setup) &&
		number(q.Frame, k.Frame) && number(q.Clients, k.Clients) && number(q.Active, k.Active)
}

// Compare orders keys as tables show them. Relays are in the order that order gives.
func (q Key) Compare(o Key, order func(relay string) int) int {
	return cmp.Or(
		cmp.Compare(q.Series, o.Series), cmp.Compare(q.Direction, o.Direction), cmp.Compare(q.Transport, o.Transport),
		cmp.Compare(q.Sender, o.Sender), cmp.Compare(q.Frame, o.Frame), cmp.Compare(q.Active, o.Active),
		cmp.Compare(q.Clients, o.Clients), cmp.Compare(order(q.Relay), order(o.Relay)), cmp.Compare(q.Relay, o.Relay),
		cmp.Compare(q.Setup, o.Setup),
	)
}

// ParseQuery reads "series=pair relay=daemon frame=1514".
func ParseQuery(s string) (q Key, err error) {
	for word := range strings.FieldsSeq(s) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "series":
			q.Series = value
		case "relay":
			q.Relay = value
		case "transport":
			q.Transport = value
		case "sender":
			q.Sender = value
		case "direction":
			q.Direction = value
		case "setup":
			q.Setup = strings.ReplaceAll(value, "_", " ")
		case "frame":
			q.Frame, err = strconv.Atoi(value)
		case "clients":
			q.Clients, err = strconv.Atoi(value)
		case "active":
			q.Active, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("no field %q", name)
		}
		if err != nil || value == "" {
			return q, fmt.Errorf("query %q: %q: %w", s, word, err)
		}
	}
	if q.Series == "" {
		return q, fmt.Errorf("query %q: it names no series", s)
	}
	return q, nil
}

// A Group is the rounds of one set-up.
type Group []rounds.Round

// Keys are those of a run that match a query, each once, in the order of the file.
func (r *Run) Keys(q Key) (keys []Key) {
	for _, x := range r.Rounds {
		if k := KeyOf(x); q.Matches(k) && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Group are the rounds that match a query. Rounds of several set-ups are an error, since no figure may mix them; none are not.
func (r *Run) Group(q Key) (g Group, err error) {
	for _, x := range r.Rounds {
		if q.Matches(KeyOf(x)) {
			g = append(g, x)
		}
	}
	if keys := r.Keys(q); len(keys) > 1 {
		return nil, fmt.Errorf("run %s: %+v means several set-ups, as %+v and %+v", r.Name, q, keys[0], keys[1])
	}
	return g, nil
}

// Exactly are the rounds that have a key: the name of the set-up counts even if it is empty.
func (r *Run) Exactly(k Key) (g Group, err error) {
	for _, x := range r.Rounds {
		if KeyOf(x) == k {
			g = append(g, x)
		}
	}
	if len(g) == 0 {
		return nil, fmt.Errorf("run %s has no rounds of %+v", r.Name, k)
	}
	return g, nil
}

// Beside is what was measured with another relay in place of k's and is otherwise the same: a set-up's name may have the relay
// in it, or which side of a comparison it is. Without a relay there is neither transport nor VMM. There is none unless exactly
// one set-up fits.
func (r *Run) Beside(k Key, relay string) Group {
	other := k
	other.Relay, other.Setup = relay, ""
	if relay == rounds.Direct {
		other.Transport, other.Sender = "", TCP
	}
	for _, name := range []string{
		"", strings.Replace(k.Setup, k.Relay, relay, 1), strings.TrimSuffix(k.Setup, "/new") + "/old",
	} {
		other.Setup = name
		if g, err := r.Group(other); err == nil && len(g) > 0 {
			return g
		}
	}
	return nil
}
