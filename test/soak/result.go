// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// A result is what a run comes to.
type result struct {
	r          *run
	Ways       map[string]int // connections
	Hostile    map[string]int // inputs
	Counts     map[ledger.Kind]int
	Violations []ledger.Violation
}

func (r *run) result() *result {
	t := &r.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	return &result{r, maps.Clone(t.ways), maps.Clone(t.hostile), r.ledger.Counts(), r.ledger.Violations()}
}

// print prints the result as a table.
func (x *result) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	r, t, c := x.r, &x.r.totals, &x.r.ledger.Stats
	row("seed", "%d", r.o.Seed)
	row("time", "%.0f s on %s, %s/%s, %d CPUs", r.now().Seconds(), r.o.Backend, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	row("good clients at once", "%d, of %d kinds", r.o.Clients+len(r.watch.all), len(x.Ways))
	row("connections", "%d", t.connections.Load())
	row("frames sent", "%d", t.sent.Load())
	row("frames checked", "%d, of them %d unicast to an owner, %d flooded rightly", c.Frames.Load(), c.Owned.Load(), c.Flooded.Load())
	row("counters compared", "%d connections, %d for losses", c.Settled.Load(), c.GapConns.Load())
	row("frames dropped", "%d and counted as that, %d in a restart or upgrade", c.Missing.Load(), c.Excused.Load())
	row("starts, stops, kills", "%d, %d, %d", t.starts.Load(), t.terms.Load(), t.kills.Load())
	row("upgrades", "%d", t.upgrades.Load())
	if d := slices.Sorted(slices.Values(t.upgradeTimes)); len(d) > 0 {
		row("upgrade took", "p50 %d ms, max %d ms", d[(len(d)-1)/2].Milliseconds(), d[len(d)-1].Milliseconds())
	}
	row("frozen, short of descriptors", "%d times, %d times", t.freezes.Load(), t.few.Load())
	row("gateway killed", "%d times", t.gatewayKills.Load())
	row("slowest stop", "%s", t.slowestStop.Round(time.Millisecond))
	row("longest silence", "%s, of clients that talk all the time", t.slowestGap.Round(time.Millisecond))
	row("hostile inputs", "%d of %d kinds", sum(x.Hostile), len(x.Hostile))
	if n := len(t.uses); n > 0 {
		a, b := t.uses[0], t.uses[n-1]
		row("descriptors", "%d before any client, %d at the end, without clients", a.Files, b.Files)
		row("threads", "%d, %d", a.Threads, b.Threads)
		row("resident memory", "%.1f MiB, %.1f MiB; %d times looked at", float64(a.RSS)/1024, float64(b.RSS)/1024, n)
	}
	for _, k := range slices.Sorted(maps.Keys(x.Counts)) {
		row("violations: "+string(k), "%d", x.Counts[k])
	}
	row("violations", "%d", sum(x.Counts))
}

// sample notes what the daemon and its gateway, if it has one, use now.
func (r *run) sample() {
	daemon, err := lab.UseOf(r.daemon.pid())
	gateway, err2 := lab.UseOf(lab.Child(r.daemon.pid()))
	if err != nil || err2 != nil && r.o.Backend == backendEmbedded {
		return // between two lives
	}
	r.totals.mu.Lock()
	defer r.totals.mu.Unlock()
	r.totals.samples = append(r.totals.samples, [2]lab.Use{daemon, gateway})
}

// record writes the result to path, unless that is empty: the table, and two plots of what was used under load.
func (x *result) record(path string) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	m := x.r.machine
	fmt.Fprintf(&b, "# Soak of %s, seed %d\n\n`make soak SOAK_DURATION=%s SOAK_SEED=%d SOAK_FLAGS='-backend %s'` at %s, %d × %s, %s\n\n```text\n", m.Date.Format(time.DateOnly),
		x.r.o.Seed, x.r.o.Duration, x.r.o.Seed, x.r.o.Backend, m.Commit, m.Cores, m.CPU, m.Go)
	x.print(&b)
	fmt.Fprintf(&b, "```\n\nThe daemon is the first line of a plot, the gateway's process the second, zero where there is none. Looked at %d times under load, from the beginning to the end.\n",
		len(x.r.totals.samples))
	for _, p := range []struct {
		title string
		of    func(lab.Use) int
	}{{"resident memory, MiB", func(u lab.Use) int { return u.RSS >> 10 }}, {"descriptors", func(u lab.Use) int { return u.Files }}} {
		fmt.Fprintf(&b, "\n```mermaid\nxychart-beta\n    title \"%s\"\n", p.title)
		for which := range 2 {
			var line []string
			for _, u := range x.r.totals.samples {
				line = append(line, strconv.Itoa(p.of(u[which])))
			}
			fmt.Fprintf(&b, "    line [%s]\n", strings.Join(line, ", "))
		}
		b.WriteString("```\n")
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func sum[K comparable](m map[K]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
