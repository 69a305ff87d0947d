// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces a running daemon by the program that is now at the path it was started by. Before anything is
// stopped, that program is looked at and tried:
//
//	Find   who may change it: every directory on the way, every link, the file itself
//	Check  it runs as a child, which parses a copy of the daemon's state and its command line, within 2 s
//	Run    pause → save → exec; whatever fails up to there, the daemon goes on as it was, and says why
package upgrade

import (
	"fmt"
	"time"
)

// A code tells a program why an upgrade was refused.
type code string

// The reasons.
const (
	// codeUntrusted: somebody else could change the new program.
	codeUntrusted code = "untrusted"
	// codeUnusable: there is no program that can be run.
	codeUnusable code = "unusable"
	// CodeCheck: the new program was tried, and failed.
	CodeCheck code = "check_failed"
	// CodeSlow: the new program was tried, and did not answer in time.
	CodeSlow code = "check_timeout"
	// CodeStopping: the daemon is being stopped.
	CodeStopping code = "stopping"
	// CodeFailed: a step of the daemon itself failed. It goes on as it was.
	CodeFailed code = "failed"
)

// A Refusal is why there was no upgrade. The daemon goes on as it was.
type Refusal struct {
	Code code
	Text string // what happened, and what to do
	Err  error  // may be nil
}

func (r *Refusal) Error() string { return r.Text }

func (r *Refusal) Unwrap() error { return r.Err }

// refuse is a Refusal that says what err says.
func refuse(code code, err error) *Refusal { return &Refusal{Code: code, Text: err.Error(), Err: err} }

func refusef(code code, format string, args ...any) *Refusal {
	return refuse(code, fmt.Errorf(format, args...))
}

// A Result is what an upgrade did. The new image answers it.
type Result struct {
	From    string         `json:"from"` // versions
	To      string         `json:"to"`
	PID     int            `json:"pid"`
	Gap     float64        `json:"gap_ms"`  // how long no frame was carried, in milliseconds
	Clients map[string]int `json:"clients"` // that were kept, by transport
	Notes   []string       `json:"notes"`   // what did not survive, in sentences
}

// SetGap is the gap as JSON has it, with a tenth of a millisecond as its unit.
func (r *Result) SetGap(d time.Duration) {
	r.Gap = float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
