// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// A result is what a run comes to.
type result struct {
	Options     options             `json:"options"`
	Date        string              `json:"date"`
	Machine     string              `json:"machine"`
	Took        float64             `json:"took_s"`
	Error       string              `json:"error,omitempty"`
	Connections uint64              `json:"connections"`
	Ways        map[string]uint64   `json:"connections_by_transport"`
	Retries     uint64              `json:"connection_attempts_in_vain"` // while the daemon was down
	Sent        uint64              `json:"frames_sent"`
	Checked     ledger.Stats        `json:"checked"`
	Starts      int64               `json:"starts"`
	Terms       int64               `json:"terms"`
	Kills       int64               `json:"kills"`
	Upgrades    int64               `json:"upgrades"`
	Refusals    int64               `json:"upgrades_refused"`
	NoUpgrade   int64               `json:"upgrades_not_to_be_had"`
	TooSlow     int64               `json:"upgrades_given_up_on_a_busy_machine"`
	Strain      float64             `json:"machine_too_busy_s"` // this process did not get to run
	Freezes     int64               `json:"freezes"`
	Calms       int64               `json:"calms"`
	Stop        float64             `json:"slowest_stop_s"`
	Start       float64             `json:"slowest_start_s"`
	Gap         float64             `json:"longest_silence_s"` // of a witness, while nothing was done to the daemon
	UpgradeMS   []float64           `json:"upgrade_ms"`        // p50, p99, max of the command
	Hostile     map[string]int      `json:"hostile_inputs"`
	Uses        []usage             `json:"uses"` // of the daemon, without clients; the first before there was any
	Warnings    map[string]int      `json:"warnings"`
	LogLines    int                 `json:"log_lines"`
	Counts      map[ledger.Kind]int `json:"violations_by_kind"`
	Violations  []ledger.Violation  `json:"violations"`
}

func (r *run) result(err error) *result {
	t := &r.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	res := &result{
		Options: r.o, Date: r.began.UTC().Format("2006-01-02"), Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Took: r.now().Seconds(), Connections: t.connections.Load(), Ways: map[string]uint64{}, Retries: t.retries.Load(), Sent: t.sent.Load(),
		Checked: r.ledger.Stats(), Starts: t.starts.Load(), Terms: t.terms.Load(), Kills: t.kills.Load(), Upgrades: t.upgrades.Load(),
		Refusals: t.refusals.Load(), TooSlow: t.tooSlow.Load(), Strain: time.Duration(r.strain.total.Load()).Seconds(), Freezes: t.freezes.Load(), Calms: t.calms.Load(),
		Stop: t.slowestStop.Seconds(), Start: t.slowestStart.Seconds(), Gap: t.slowestGap.Seconds(),
		UpgradeMS: percentiles(t.upgradeTimes), Hostile: maps.Clone(t.hostile), Uses: t.uses,
		Counts: r.ledger.Counts(), Violations: r.ledger.Violations(),
	}
	res.Warnings, res.LogLines = r.book.warnings()
	for i, via := range transports {
		res.Ways[string(via)] = t.ways[i].Load()
	}
	if err != nil {
		res.Error = err.Error()
	}
	return res
}

// percentiles are p50, p99 and the maximum in milliseconds, nil of nothing.
func percentiles(d []time.Duration) []float64 {
	if len(d) == 0 {
		return nil
	}
	d = slices.Sorted(slices.Values(d))
	var ms []float64
	for _, i := range []int{(len(d) - 1) / 2, (len(d)*99 - 1) / 100, len(d) - 1} {
		ms = append(ms, float64(d[max(i, 0)].Microseconds())/1000)
	}
	return ms
}

// print prints the result as a table.
func (x *result) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	c := x.Checked
	row("seed", "%d", x.Options.Seed)
	row("time", "%.0f s on %s, %s", x.Took, x.Options.Backend, x.Machine)
	row("good clients at once", "%d, of %d transports", x.Options.Clients+len(witnessWays), len(x.Ways))
	row("connections", "%d", x.Connections)
	row("frames sent", "%d", x.Sent)
	row("frames checked", "%d, of them %d unicast to an owner, %d flooded rightly", c.Frames, c.Owned, c.Flooded)
	row("counters compared", "%d connections, %d for losses", c.Settled, c.GapConns)
	row("frames dropped", "%d and counted as that, %d in a restart or upgrade", c.Missing, c.Excused)
	row("starts, stops, kills", "%d, %d, %d", x.Starts, x.Terms, x.Kills)
	row("upgrades", "%d, %d of a bad program refused, %d given up on a busy machine", x.Upgrades, x.Refusals, x.TooSlow)
	if len(x.UpgradeMS) > 0 {
		row("upgrade took", "p50 %.0f ms, p99 %.0f ms, max %.0f ms", x.UpgradeMS[0], x.UpgradeMS[1], x.UpgradeMS[2])
	}
	row("frozen", "%d times", x.Freezes)
	row("machine too busy", "%.0f s in all", x.Strain)
	row("slowest stop, start", "%.2f s, %.2f s", x.Stop, x.Start)
	row("longest silence", "%.2f s, of clients that talk all the time", x.Gap)
	sum := 0
	for _, n := range x.Hostile {
		sum += n
	}
	row("hostile inputs", "%d of %d kinds", sum, len(x.Hostile))
	if n := len(x.Uses); n > 0 {
		a, b := x.Uses[0], x.Uses[n-1]
		row("descriptors", "%d before any client, %d at the end, without clients", a.Files, b.Files)
		row("threads", "%d, %d", a.Threads, b.Threads)
		row("resident memory", "%.1f MiB, %.1f MiB; %d times looked at", float64(a.RSS)/1024, float64(b.RSS)/1024, n)
	}
	total := 0
	for _, k := range slices.Sorted(maps.Keys(x.Counts)) {
		total += x.Counts[k]
		row("violations: "+string(k), "%d", x.Counts[k])
	}
	row("violations", "%d", total)
}

// write writes the result to path as JSON; nothing for an empty path.
func (x *result) write(path string) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(x, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
