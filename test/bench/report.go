// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A report is all there is to know of a run.
type report struct {
	Machine  rounds.Machine `json:"machine"`
	Command  string         `json:"command"`
	Params   params         `json:"params"`
	Verdicts []verdict      `json:"verdicts"`
	Calls    callSet        `json:"calls"`
	Rounds   []measurement  `json:"-"`
	more     []rounds.Round // of what is no comparison
}

// write puts the raw rounds and the verdicts into the files that the command line names.
func (r report) write() error {
	var errs []error
	if r.Params.JSON != "" {
		f := rounds.File{Command: r.Command, Machine: r.Machine, Rounds: append(rawRounds(r.Rounds), r.more...)}
		errs = append(errs, rounds.Write(r.Params.JSON, f))
	}
	if r.Params.Verdicts != "" {
		errs = append(errs, r.writeVerdicts(r.Params.Verdicts))
	}
	return errors.Join(errs...)
}

func (r report) writeVerdicts(path string) error {
	out, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the verdicts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory for the verdicts: %w", err)
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the verdicts: %w", err)
	}
	return nil
}

// outcome is an error when the run is invalid or strict and targets were missed.
func (r report) outcome(strict bool) error {
	missed := 0
	var errs []error
	for _, v := range r.Verdicts {
		if v.invalidates() {
			errs = append(errs, fmt.Errorf("this run is invalid: %s: %.2f, needs %.2f", v.Text, v.figure(), v.Target))
		} else if !v.Met {
			missed++
		}
	}
	if strict && missed > 0 {
		errs = append(errs, missedError(missed))
	}
	return errors.Join(errs...)
}

// print writes the table for people.
func (r report) print(w io.Writer) {
	m, p := r.Machine, r.Params
	fmt.Fprintf(w, "%s, %d cores, %s; commit %s, %s, %s\n", m.CPU, m.Cores, m.Kernel, m.Commit, m.Go, m.Date.Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(w, "best of %d rounds of %v, load average %s at the begin, %s at the end\n\n", p.Rounds, p.Time, m.LoadBegin, m.LoadEnd)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "row\twhat\tfigure\tagainst\tratio\tCPU ns\tagainst\tby CPU\ttarget\tverdict\t")
	for _, v := range r.Verdicts {
		fmt.Fprintln(t, v.line())
	}
	_ = t.Flush()
	fmt.Fprintln(w, "\n* decides: the ratio of the best rounds, or of the CPU time per frame where best and median differ by more than 1.5x")
	fmt.Fprintln(w, "  or the target is about that. Ratios are of frames per second, or the daemon's figure over the other where <= stands.")
	for _, v := range r.Verdicts {
		if v.Remarks != "" {
			fmt.Fprintf(w, "%s: %s\n", v.Text, v.Remarks)
		}
	}
	if p.Quick {
		fmt.Fprintln(w, "--quick: the figures are from two short rounds and say little")
	}
}

// line is the verdict's line of the table, its cells separated by tabs. The ratio that decides is marked.
func (v verdict) line() string {
	cells := [4]string{amount(v.Subject, v.Unit), "", "", ""}
	cpu := [3]string{}
	if v.Against != "" {
		cells[1], cells[2] = amount(v.Base, v.Unit), v.quotient(v.Ratio)
		if v.SubjectCPU > 0 || v.BaseCPU > 0 {
			cpu[0], cpu[1] = fmt.Sprintf("%.0f", v.SubjectCPU), fmt.Sprintf("%.0f", v.BaseCPU)
		}
		if v.CPURatio != 0 {
			cpu[2] = v.quotient(v.CPURatio)
		}
		if v.ByCPU {
			cpu[2] += " *"
		} else {
			cells[2] += " *"
		}
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t",
		v.Key, v.Text, cells[0], cells[1], cells[2], cpu[0], cpu[1], cpu[2], v.wanted(), v.word())
}

// quotient is how the two sides compare.
func (v verdict) quotient(x float64) string {
	if v.Difference {
		return fmt.Sprintf("%+.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func (v verdict) wanted() string {
	switch {
	case v.AtMost && v.Difference:
		return fmt.Sprintf("<= %+g", v.Target)
	case v.AtMost && v.Against == "":
		return "<= " + amount(v.Target, v.Unit)
	case v.AtMost:
		return fmt.Sprintf("<= %g", v.Target)
	case v.Target == 0:
		return "-"
	default:
		return fmt.Sprintf(">= %g", v.Target)
	}
}

func (v verdict) word() string {
	switch {
	case v.Target == 0 && !v.AtMost:
		return "shown"
	case v.Met:
		return "met"
	case v.Must:
		return "INVALID"
	default:
		return "MISSED"
	}
}

// Units of figures, where not frames/s.
const (
	unitCPU    = "ns of CPU time"
	unitMS     = "ms"
	unitMSPerS = "ms/s"
	unitPerS   = "per s"
)

// amount is a figure with its unit, as short as people read it.
func amount(x float64, unit string) string {
	switch unit {
	case "frames/s":
		return fmt.Sprintf("%.1f kf/s", x/1e3)
	case "ns":
		return fmt.Sprintf("%.1f us", x/1e3)
	case unitCPU:
		return fmt.Sprintf("%.1f ns", x)
	case unitMS:
		return fmt.Sprintf("%.1f ms", x)
	case unitMSPerS:
		return fmt.Sprintf("%.2f ms/s", x)
	case unitPerS:
		return fmt.Sprintf("%.1f/s", x)
	case "KiB":
		return fmt.Sprintf("%.1f KiB", x)
	default:
		return fmt.Sprintf("%g", x)
	}
}

// remarks tells what else happened in a set-up's rounds.
func remarks(ms []measurement) string {
	var lost, stalls int64
	for _, m := range ms {
		lost += m.Lost
		stalls += m.Stalls
	}
	if lost == 0 && stalls == 0 {
		return ""
	}
	return fmt.Sprintf("%d frames lost, %d windows without an ack for 200 ms, in all rounds", lost, stalls)
}
