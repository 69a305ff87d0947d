// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/procfs"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// A use is what a daemon needed for one transfer.
type use struct {
	daemon        string // as it was named
	bytes         uint64 // of payload
	bitsPerSecond float64
	retransmits   *uint64
	cpuPerGB      *float64 // seconds of the daemon, user and system, for 10^9 bytes of payload; nil: not measured
	note          string   // why not
}

// A result is one measurement.
type result struct {
	direction string
	iperf     []byte // as iperf3 printed it
	use       use
}

// difference is what the daemon needed between two looks at it. err says why there were none.
func difference(t lab.IPerf, before, after float64, err error) use {
	received := t.End.Received
	u := use{bytes: received.Bytes, bitsPerSecond: received.BitsPerSecond, retransmits: t.End.Sent.Retransmits}
	cpu := after - before
	if err == nil && cpu < 0 {
		err = errors.New("the process is another one than before")
	}
	if err != nil {
		u.note = "what the daemon needed was not measured: " + err.Error()
		return u
	}
	// A difference of two readings is off by up to one step.
	if cpu < 10*cpuResolution {
		u.note = "the daemon's processor time is near the resolution of its measurement: measure longer with -t"
	}
	perGB := cpu / (float64(u.bytes) / 1e9)
	u.cpuPerGB = &perGB
	return u
}

// write puts a result into a file, as iperf3 printed it.
func (r *result) write(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, r.iperf, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write a result, choose another directory with -o: %w", err)
	}
	return nil
}

// decimal is a number in a table, "-" where it was not measured.
func decimal(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

// printTable prints the results of one daemon, or of an old and a new one and how they compare by their medians.
func printTable(out io.Writer, old, fresh []result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\ndaemon\tdirection\tGbit/s\tretransmits\tCPU s/GB\t\n")
	for _, r := range slices.Concat(old, fresh) {
		retransmits := "-"
		if r.use.retransmits != nil {
			retransmits = fmt.Sprint(*r.use.retransmits)
		}
		fmt.Fprintf(w, "%s\t%s\t%.3f\t%s\t%s\t\n", r.use.daemon, r.direction, r.use.bitsPerSecond/1e9, retransmits, decimal(r.use.cpuPerGB))
	}
	if len(fresh) > 0 {
		speed := func(u use) *float64 { return &u.bitsPerSecond }
		cost := func(u use) *float64 { return u.cpuPerGB }
		fmt.Fprintf(w, "new/old\t\t%s\t\t%s\t\n", ratio(median(fresh, speed), median(old, speed)), ratio(median(fresh, cost), median(old, cost)))
	}
	_ = w.Flush()
}

// median is that of the values of f that were measured, nil if there are none.
func median(results []result, f func(use) *float64) *float64 {
	var vs []float64
	for _, r := range results {
		if v := f(r.use); v != nil {
			vs = append(vs, *v)
		}
	}
	if len(vs) == 0 {
		return nil
	}
	slices.Sort(vs)
	m := (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	return &m
}

func ratio(a, b *float64) string {
	if a == nil || b == nil || *b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", *a / *b)
}

// cpuResolution is that of ps on macOS and of /proc on Linux, in seconds.
const cpuResolution = 0.01

// consumed is the processor time, user and system, that process pid has needed since its start: by /proc on Linux, by ps on
// macOS, which is the one program there that tells an ordinary user about processes of root.
func (p *perf) consumed(ctx context.Context, pid int) (seconds float64, err error) {
	if pid == 0 {
		return 0, errors.New("its process is not known")
	}
	if p.goos == "linux" {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return 0, err
		}
		stat, err := p.Stat()
		return stat.CPUTime(), err
	}
	text, err := output(ctx, "ps", "-o", "time=", "-p", strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ":") { // minutes:seconds, with hours in front on some systems
		v, err := strconv.ParseFloat(strings.Replace(part, ",", ".", 1), 64) // a comma in some languages
		if err != nil {
			return 0, fmt.Errorf("ps says %q: %w", text, err)
		}
		seconds = seconds*60 + v
	}
	return seconds, nil
}
