// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostWaiting bounds the events that wait for a reader who is stopped. The network goes on without him.
const mostWaiting = 1024

// A tryPrinter prints what happens, by a goroutine of its own.
type tryPrinter struct {
	json  bool
	out   io.Writer
	lines chan string
	first chan error // whether the first of them could be written
	ended chan struct{}

	mu      sync.Mutex
	told    bool            // that the network is ready
	lost    int             // lines
	clients map[string]bool // those whose coming was told, by number
}

func newTryPrinter(w io.Writer, asJSON bool) *tryPrinter {
	p := &tryPrinter{
		json: asJSON, out: w, lines: make(chan string, mostWaiting), first: make(chan error, 1), ended: make(chan struct{}),
		clients: map[string]bool{},
	}
	go p.write()
	return p
}

// write writes the lines until there are no more. Only the first one's error matters: later ones are in the log as well.
func (p *tryPrinter) write() {
	defer close(p.ended)
	for text := range p.lines {
		_, err := io.WriteString(p.out, text)
		select {
		case p.first <- err:
		default:
		}
	}
}

// close ends the goroutine, unless nobody reads what it writes.
func (p *tryPrinter) close() {
	p.mu.Lock()
	p.told = false
	close(p.lines)
	p.mu.Unlock()
	tick := time.NewTicker(lastWait / lastLooks)
	defer tick.Stop()
	for range lastLooks { // time in which this process does not run does not count
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
	}
}

// lastWait is how long the end waits for a reader, and lastLooks how often it looks for him meanwhile.
const (
	lastWait  = 500 * time.Millisecond
	lastLooks = 50
)

// ready prints everything about the network. After it come the events.
func (p *tryPrinter) ready(ctx context.Context, r tryReady) error {
	text := r.text()
	if p.json {
		text = jsonText(r)
	}
	p.mu.Lock()
	p.lines <- text
	p.told = true
	p.mu.Unlock()
	select {
	case err := <-p.first:
		return err
	case <-ctx.Done():
		return nil
	}
}

// jsonText is v as a line of JSON.
func jsonText(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return ""
	}
	return b.String()
}

// text is r for a person.
func (r tryReady) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The network is ready: %s on %s\n", r.Socket, r.Backend)
	if r.Subnet != "" {
		fmt.Fprintf(&b, "Mode %s, subnet %s, this host is %s\n", r.Mode, r.Subnet, r.Gateway)
	} else {
		fmt.Fprintf(&b, "Mode %s\n", r.Mode)
	}
	if os.Geteuid() == 0 { // else its directory lets nobody else in
		fmt.Fprintf(&b, "The socket is for user %s and group %s: --socket-user=USER and --socket-group=GROUP choose others\n", r.User, r.Group)
	}
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "\n%s\n", l.What)
		for line := range strings.SplitSeq(l.Use, "\n") {
			if line != "" {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
		if l.Undo != "" {
			fmt.Fprintf(&b, "  undo: %s\n", l.Undo)
		}
		if l.Note != "" {
			fmt.Fprintf(&b, "  note: %s\n", l.Note)
		}
	}
	b.WriteString("\nTwo guests need two MAC addresses. Nothing that is installed was touched. Ctrl-C ends the network and removes it.\n\n")
	return printable(b.String())
}

// stopped prints that it is over.
func (p *tryPrinter) stopped() { p.event("stopped", "The network has ended.", nil) }

// event prints one event, unless too many wait. Nothing is printed before ready.
func (p *tryPrinter) event(name, text string, fields map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.told {
		return
	}
	if p.lost > 0 {
		if !p.put("lost", fmt.Sprintf("%d lines were not printed: nobody read them", p.lost), map[string]any{"lines": p.lost}) {
			p.lost++
			return
		}
		p.lost = 0
	}
	if !p.put(name, text, fields) {
		p.lost++
	}
}

// put hands a line to the goroutine; false: too many wait.
func (p *tryPrinter) put(name, text string, fields map[string]any) bool {
	text = printable(text) + "\n"
	if p.json {
		all := map[string]any{"event": name}
		maps.Copy(all, fields)
		text = jsonText(all)
	}
	select {
	case p.lines <- text:
		return true
	default:
		return false
	}
}

// tap returns a handler that prints the events among the records of the daemon, and passes all on to h.
func (p *tryPrinter) tap(h slog.Handler) slog.Handler { return &tryTap{Handler: h, out: p} }

// A tryTap prints an event for those records that tell of clients.
type tryTap struct {
	slog.Handler
	out   *tryPrinter
	attrs []slog.Attr
}

// Enabled is true for everything: how a client that sent nothing ends is logged at a lower level than its begin.
func (t *tryTap) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns a handler that adds attrs to every record.
func (t *tryTap) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &tryTap{Handler: t.Handler.WithAttrs(attrs), out: t.out, attrs: append(slices.Clip(t.attrs), attrs...)}
}

// WithGroup returns a handler that puts name in front of the keys that follow. Records about clients have no groups.
func (t *tryTap) WithGroup(name string) slog.Handler {
	return &tryTap{Handler: t.Handler.WithGroup(name), out: t.out}
}

// Handle passes r on.
func (t *tryTap) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "accepted a connection", "serving a client":
		if r.Level >= slog.LevelInfo { // else there are too many of them
			t.out.connected(t.fields(r, "client", "transport", "name"))
		}
	case "client address":
		t.out.address(t.fields(r, "client", "mac", "ip", "hostname"))
	case "client gone":
		t.out.gone(t.fields(r, "client", "reason", "duration", "mac", "ip", "frames_to_net", "bytes_to_net", "frames_to_client", "bytes_to_client"))
	}
	if !t.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return t.Handler.Handle(ctx, r)
}

// fields are the attributes of r that are asked for, as far as there are any, in the types that JSON has.
func (t *tryTap) fields(r slog.Record, names ...string) map[string]any {
	fields := map[string]any{}
	add := func(a slog.Attr) bool {
		for _, name := range names {
			if a.Key == name {
				fields[name] = jsonValue(a.Value.Resolve())
			}
		}
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	return fields
}

func jsonValue(v slog.Value) any {
	switch v.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool, slog.KindString:
		return v.Any()
	case slog.KindDuration:
		return v.Duration().Round(time.Millisecond).String()
	}
	return v.String()
}

func (p *tryPrinter) connected(f map[string]any) {
	p.mu.Lock()
	p.clients[fmt.Sprint(f["client"])] = true
	p.mu.Unlock()
	p.event("connected", fmt.Sprintf("client %v has connected%s", f["client"], by(f)), f)
}

// by says how a client is connected if it is not by the socket.
func by(f map[string]any) string {
	if f["transport"] == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", f["transport"])
}

func (p *tryPrinter) address(f map[string]any) {
	text := fmt.Sprintf("client %v is %v at %v", f["client"], f["mac"], f["ip"])
	if f["hostname"] != nil {
		text += fmt.Sprintf(" (%v)", f["hostname"])
	}
	p.event("address", text, f)
}

func (p *tryPrinter) gone(f map[string]any) {
	id := fmt.Sprint(f["client"])
	p.mu.Lock()
	told := p.clients[id]
	delete(p.clients, id)
	p.mu.Unlock()
	if told {
		p.event("gone", fmt.Sprintf("client %v has gone after %v: %v", f["client"], f["duration"], f["reason"]), f)
	}
}
