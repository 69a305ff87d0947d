// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// Schema is the version of the JSON document. Keys are added without changing it, never renamed or removed.
const Schema = 1

// An outcome is what became of a step.
type outcome string

// The outcomes of steps.
const (
	stepPassed  outcome = "pass"
	stepFailed  outcome = "fail"
	stepSkipped outcome = "skip" // was not tried; the text tells why
)

// A verdict is what became of a run.
type verdict string

// The verdicts, and the exit codes they stand for.
const (
	passed     verdict = "pass"       // 0: no step failed
	failed     verdict = "fail"       // 1: at least one did
	incomplete verdict = "incomplete" // 1: the run was ended before all was tried
	noStart    verdict = "no-start"   // 2: the network could not be started
)

// A Fact is a named value: a string, a number or a bool.
type Fact struct {
	Name  string
	Value any
}

// Facts are an object in JSON, and lines in their order for people.
type Facts []Fact

// all are the values by name.
func (f Facts) all() map[string]any {
	m := make(map[string]any, len(f))
	for _, v := range f {
		m[v.Name] = v.Value
	}
	return m
}

// MarshalJSON implements json.Marshaler.
func (f Facts) MarshalJSON() ([]byte, error) { return json.Marshal(f.all()) }

// A Step is one line of the report.
type Step struct {
	Name    string  `json:"name"`
	Outcome outcome `json:"outcome"`
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	Values  Facts   `json:"values"` // measured, by stable names
}

// A report is the outcome of a run.
type report struct {
	Schema  int       `json:"schema"`
	Verdict verdict   `json:"verdict"`
	Reason  string    `json:"reason"` // of noStart and incomplete, else empty
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`

	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`

	Environment Facts    `json:"environment"`
	Network     Facts    `json:"network"`
	Steps       []Step   `json:"steps"`
	Log         []string `json:"log"` // warnings and errors while it ran; set by the caller
}

// finish counts and judges. stopped tells why the run was ended early, if it was.
func (rep *report) finish(stopped string) {
	unstarted := ""
	rep.Log = []string{}
	for _, s := range rep.Steps {
		switch s.Outcome {
		case stepPassed:
			rep.Passed++
		case stepFailed:
			rep.Failed++
		case stepSkipped:
			rep.Skipped++
		}
		if s.Name == "info" {
			rep.Network = s.Values
		}
		if s.Name == "open" && s.Outcome == stepFailed {
			unstarted = s.Text
		}
	}
	switch {
	case stopped != "":
		rep.Verdict, rep.Reason = incomplete, stopped
	case unstarted != "":
		rep.Verdict, rep.Reason = noStart, unstarted
	case rep.Failed > 0:
		rep.Verdict = failed
	default:
		rep.Verdict = passed
	}
}

// ExitCode is 0 for passed, 2 for noStart, else 1.
func (rep *report) ExitCode() int {
	return map[verdict]int{passed: 0, noStart: 2, failed: 1, incomplete: 1}[rep.Verdict]
}

// WriteHead writes what the text report begins with.
func WriteHead(w io.Writer, environment Facts) error {
	_, err := fmt.Fprintf(w, "socket_vmnet2 selftest\n\n%s\n", environment.lines())
	return err
}

// WriteStep writes the line of one step.
func WriteStep(w io.Writer, s Step) error {
	_, err := fmt.Fprintf(w, "%s  %-10s  %s\n", s.Outcome, s.Name, oneLine(s.Text))
	return err
}

// WriteTail writes what follows the steps; the last line is the verdict.
func (rep *report) WriteTail(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\n" + rep.Network.lines())
	if len(rep.Network) > 0 {
		b.WriteByte('\n')
	}
	for _, l := range rep.Log {
		b.WriteString("log: " + oneLine(l) + "\n")
	}
	if len(rep.Log) > 0 {
		b.WriteByte('\n')
	}
	reason := ""
	if rep.Reason != "" {
		reason = ": " + oneLine(rep.Reason)
	}
	_, err := fmt.Fprintf(w, "%sverdict: %s: %d passed, %d failed, %d skipped in %.1f s%s\n",
		&b, rep.Verdict, rep.Passed, rep.Failed, rep.Skipped, rep.Seconds, reason)
	return err
}

// lines are the facts for people.
func (f Facts) lines() (text string) {
	width := 10 // as the names of steps have
	for _, v := range f {
		width = max(width, len(v.Name))
	}
	for _, v := range f {
		text += fmt.Sprintf("%-*s  %s\n", width, v.Name, oneLine(fmt.Sprint(v.Value)))
	}
	return text
}

// oneLine keeps what others wrote, such as an error of several parts, from breaking the lines up.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), "; ")
}

// describe is what a network's Info tells, as facts.
func describe(i network.Info) Facts {
	f := Facts{{"backend", i.Backend}, {"mode", string(i.Mode)}}
	if i.Subnet.IsValid() {
		f = append(f, Fact{"subnet", i.Subnet.String()})
	}
	if i.Gateway.IsValid() {
		f = append(f, Fact{"gateway", i.Gateway.String()})
	}
	if i.DHCPStart.IsValid() {
		f = append(f, Fact{"dhcp_start", i.DHCPStart.String()}, Fact{"dhcp_end", i.DHCPEnd.String()})
	}
	return append(f, Fact{"mtu_bytes", i.MTU}, Fact{"max_frame_bytes", i.MaxFrame})
}

// Entitlement is what codesign(1) says of the program at path: whether it may start vmnet without root, on macOS 26.
func Entitlement(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return entitlement(exec.CommandContext(ctx, "/usr/bin/codesign", "--display", "--entitlements", "-", "--xml", path).CombinedOutput())
}

func entitlement(out []byte, err error) string {
	const name = "com.apple.security.virtualization"
	switch {
	case err != nil:
		return strings.TrimSuffix(fmt.Sprintf("not known: %v: %s", err, bytes.TrimSpace(out)), ": ")
	case regexp.MustCompile(`<key>` + name + `</key>\s*<true\s*/>`).Match(out):
		return "yes: " + name
	}
	return "no: signed without " + name
}
