// SPDX-License-Identifier: Apache-2.0

// Package doctor checks an installation of socket_vmnet or socket_vmnet2 and its surroundings, and says of what is wrong what to
// do about it. It changes nothing, and never calls sudo.
//
// Every check looks through a System only, so that it can be tried on staged trees and recorded answers. Each has a limited
// time, and one that hangs or panics is a finding like another.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Format is the number of the JSON document's form: it changes when a key changes its meaning or goes.
const Format = 1

// OK is the severity of a finding that nothing is wrong; the others are status.Notice, status.Warning and status.Error.
const OK = "ok"

// Limits on time. The facts come first, then all checks at once, so an examination takes no longer than 20 s.
const (
	factTime  = 6 * time.Second // for what is installed and runs
	placeTime = 2 * time.Second // for where sockets are
	askTime   = 3 * time.Second // for all daemons' answers
	checkTime = 5 * time.Second // for each check
	grace     = time.Second     // on top of each, for what heeds its limit
)

// A Finding is one thing that a check found.
type Finding struct {
	Check    string         `json:"check"`
	Severity string         `json:"severity"` // ok, notice, warning or error
	Text     string         `json:"text"`
	Fix      []string       `json:"fix"` // what to do, a step each; commands are indented by four blanks
	Data     map[string]any `json:"data,omitempty"`
}

// A Skip is something that was not checked.
type Skip struct {
	Check string `json:"check"`
	Why   string `json:"why"`
	Root  bool   `json:"needs_root"` // sudo would help
}

// A Report is the outcome of an examination.
type Report struct {
	Format   int       `json:"format"`
	Program  string    `json:"program"`
	Version  string    `json:"version"`
	System   string    `json:"system"` // as in "macOS 26.1" or "linux"
	Root     string    `json:"root,omitempty"`
	User     string    `json:"user"` // for whom permissions were checked
	Worst    string    `json:"worst"`
	Findings []Finding `json:"findings"` // in the order of the checks, the worst of each first
	Skipped  []Skip    `json:"not_checked"`
}

// ExitCode is what the command ends with.
func (r *Report) ExitCode() int {
	switch r.Worst {
	case status.Warning:
		return 2
	case status.Error:
		return 3
	}
	return 0
}

// rank orders severities, the worst first.
func rank(severity string) int {
	return slices.Index([]string{status.Error, status.Warning, status.Notice, OK}, severity)
}

// A Check is one thing that is looked at.
type Check struct {
	ID    string
	Group string
	Title string // what it answers
	goos  string // the only system that it is for; empty: all
	run   func(*exam)
}

// Groups of checks, in the order of their output.
const (
	groupPrograms = "Programs"
	groupDaemons  = "Daemons"
	groupNetwork  = "Network"
	groupSystem   = "System"
)

// Checks are all checks, in the order of their output.
func Checks() []Check {
	return []Check{
		{"installs", groupPrograms, "Is there one socket_vmnet, and what does each serve?", "", checkInstalls},
		{"paths", groupPrograms, "Would Lima, and sudo, take the paths?", "", checkPaths},
		{"sudoers", groupPrograms, "Does Lima's sudoers file belong to its networks.yaml?", "", checkSudoers},
		{"signature", groupPrograms, "Are the programs signed as macOS wants them?", "darwin", checkSignatures},
		{"jobs", groupPrograms, "What do launchd and systemd start?", "", checkJobs},
		{"daemons", groupDaemons, "What do the running daemons say of themselves?", "", checkDaemons},
		{"permissions", groupDaemons, "May this user connect to the sockets?", "", checkPermissions},
		{"stale", groupDaemons, "Are there sockets and pidfiles that nobody serves?", "", checkStale},
		{"state", groupDaemons, "Are leases and identities kept, where nobody else can write?", "", checkState},
		{"runtime", groupDaemons, "Is the directory SOCKET.d as it should be?", "", checkRuntime},
		{"limits", groupDaemons, "Do the limits of this system suffice for the clients?", "linux", checkLimits},
		{"subnets", groupNetwork, "Does every daemon have a subnet of its own?", "", checkSubnets},
		{"overlap", groupNetwork, "Does anything else on this host use the subnets?", "", checkOverlap},
		{"bootpd", groupNetwork, "Can macOS's DHCP server answer?", "darwin", checkBootpd},
		{"firewall", groupNetwork, "Does macOS's firewall let the DHCP server answer?", "darwin", checkFirewall},
		{"reach", groupNetwork, "Can this program reach the guest of --reach?", "", checkReach},
		{"macos", groupSystem, "What can this macOS do?", "darwin", checkMacOS},
		{"qemu", groupSystem, "Can this QEMU reconnect?", "", checkQEMU},
	}
}

// Examine makes all checks on s.
func Examine(ctx context.Context, s System) *Report {
	return examine(ctx, s, Checks(), checkTime)
}

func examine(ctx context.Context, s System, checks []Check, limit time.Duration) *Report {
	f := gather(ctx, s)
	r := &Report{
		Format: Format, Program: s.Program, Version: s.Version, System: f.systemName(), Root: s.Root,
		User: s.User.String(), Worst: OK, Findings: f.findings, Skipped: f.skipped,
	}
	results := make([]chan *exam, len(checks))
	for i, c := range checks {
		results[i] = start(ctx, f, c, limit)
	}
	for _, done := range results {
		x := <-done
		slices.SortStableFunc(x.findings, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
		r.Findings = append(r.Findings, x.findings...)
		r.Skipped = append(r.Skipped, x.skipped...)
	}
	for _, found := range r.Findings {
		if rank(found.Severity) < rank(r.Worst) {
			r.Worst = found.Severity
		}
	}
	return r
}

// start makes a check beside others. Its result comes within the limit: what takes longer is left behind.
func start(ctx context.Context, f *facts, c Check, limit time.Duration) chan *exam {
	out := make(chan *exam, 1)
	late := &exam{id: c.ID}
	if c.goos != "" && c.goos != f.GOOS {
		out <- late
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan *exam, 1)
	go func() {
		defer cancel()
		x := &exam{facts: f, ctx: ctx, id: c.ID}
		c.run(x)
		done <- x
	}()
	go func() {
		select {
		case x := <-done:
			out <- x
		case <-time.After(limit + grace): // a check notices the limit itself, mostly
			late.findings = append(late.findings, broken(c.ID, fmt.Sprintf("the check was not done within %v: something that it asked hangs", limit)))
			out <- late
		}
	}()
	return out
}

// broken is a check that did not come to its end.
func broken(id, text string) Finding {
	return Finding{
		Check: id, Severity: status.Warning, Text: migrate.Clean(text),
		Fix: []string{"run doctor again; if that stays, please report it with the output of doctor --json"},
	}
}

// An exam is one check at work. It has the facts for reading only.
type exam struct {
	*facts
	ctx      context.Context //nolint:containedctx // of one check
	id       string
	findings []Finding
	skipped  []Skip
	proposed []netip.Prefix // subnets that a fix has
}

// find notes a finding. What is in it may be foreign.
func (x *exam) find(severity, text string, data map[string]any, fix ...string) {
	found := Finding{Check: x.id, Severity: severity, Text: migrate.Clean(text), Fix: []string{}, Data: data}
	for _, f := range fix {
		found.Fix = append(found.Fix, migrate.Clean(f))
	}
	x.findings = append(x.findings, found)
}

func (x *exam) ok(format string, args ...any) { x.find(OK, fmt.Sprintf(format, args...), nil) }

// skip notes something that was not checked.
func (x *exam) skip(root bool, format string, args ...any) {
	x.skipped = append(x.skipped, Skip{Check: x.id, Why: migrate.Clean(fmt.Sprintf(format, args...)), Root: root && !x.User.isRoot()})
}

// commandIndent is in front of what is a command.
const commandIndent = "    "

// command is a line of a Fix that is one.
func command(line string) string { return commandIndent + line }
