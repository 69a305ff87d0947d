// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// A use is what a daemon needed for one transfer: what is written beside iperf3's result. Null is what could not be
// measured.
type use struct {
	Daemon        string   `json:"daemon"` // as it was named
	Machines      string   `json:"machines"`
	Seconds       float64  `json:"seconds"` // of the transfer, as the next three by iperf3
	Bytes         uint64   `json:"bytes"`   // of payload
	BitsPerSecond float64  `json:"bits_per_second"`
	Retransmits   *uint64  `json:"retransmits"`
	CPUSeconds    *float64 `json:"cpu_seconds"`        // of the daemon, user and system
	CPUPerGB      *float64 `json:"cpu_seconds_per_gb"` // GB: 10^9 bytes of payload
	Note          string   `json:"note,omitempty"`
}

// A result is one measurement.
type result struct {
	direction string
	iperf     []byte // as iperf3 printed it
	use       use
}

// difference is what the daemon needed between two looks at it. err says why there were none.
func difference(t transfer, before, after float64, err error) use {
	received := t.End.Received
	u := use{Seconds: received.Seconds, Bytes: received.Bytes, BitsPerSecond: received.BitsPerSecond, Retransmits: t.End.Sent.Retransmits}
	cpu := after - before
	if err == nil && cpu < 0 {
		err = errors.New("the process is another one than before")
	}
	if err != nil {
		u.Note = "what the daemon needed was not measured: " + err.Error()
		return u
	}
	// A difference of two readings is off by up to one step.
	if cpu < 10*cpuResolution {
		u.Note = "the daemon's processor time is near the resolution of its measurement: measure longer with -t"
	}
	perGB := cpu / (float64(u.Bytes) / 1e9)
	u.CPUSeconds, u.CPUPerGB = &cpu, &perGB
	return u
}

// write puts a result into the files that begin with base: iperf3's as it is, and what the daemon needed beside it.
func (r *result) write(base string) error {
	b, err := json.MarshalIndent(r.use, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(base), 0o755)
	}
	if err == nil {
		err = errors.Join(os.WriteFile(base+".json", r.iperf, 0o644), os.WriteFile(base+".daemon.json", append(b, '\n'), 0o644))
	}
	if err != nil {
		return fmt.Errorf("write a result, choose another directory with -o: %w", err)
	}
	return nil
}

func (r *result) summary() string {
	s := fmt.Sprintf("%.3f Gbit/s, daemon %s s of CPU per GB", r.use.BitsPerSecond/1e9, decimal(r.use.CPUPerGB))
	if r.use.Note != "" {
		s += "; " + r.use.Note
	}
	return s
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
		if r.use.Retransmits != nil {
			retransmits = fmt.Sprint(*r.use.Retransmits)
		}
		fmt.Fprintf(w, "%s\t%s\t%.3f\t%s\t%s\t\n", r.use.Daemon, r.direction, r.use.BitsPerSecond/1e9, retransmits, decimal(r.use.CPUPerGB))
	}
	if len(fresh) > 0 {
		speed := func(u use) *float64 { return &u.BitsPerSecond }
		cost := func(u use) *float64 { return u.CPUPerGB }
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
