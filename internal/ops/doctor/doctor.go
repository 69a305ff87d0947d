// SPDX-License-Identifier: Apache-2.0

// Package doctor checks an installation of socket_vmnet or socket_vmnet2 and its surroundings, and says of what is wrong what to
// do about it. It changes nothing, and never calls sudo.
//
// The checks look at the inventory of package find, at what the daemons tell of themselves, and through a System at files and
// programs, so that they can be tried on staged trees and recorded answers. Each has a limited time.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// reportFormat is the number of the JSON document's form: it changes when a key changes its meaning or goes.
const reportFormat = 1

// severityOK is the severity of a finding that nothing is wrong; the others are status.Notice, status.Warning and status.Error.
const severityOK = "ok"

// Limits on time: of an examination, and for the answers of all daemons. Programs have one of their own each.
const (
	examTime = 30 * time.Second
	askTime  = 3 * time.Second
)

// A finding is one thing that a check found.
type finding struct {
	Check    string   `json:"check"`
	Severity string   `json:"severity"` // ok, notice, warning or error
	Text     string   `json:"text"`
	Fix      []string `json:"fix"` // what to do, a step each; commands are indented by four blanks
	group    string   // of the check
}

// An omission is something that was not checked.
type omission struct {
	Check string `json:"check"`
	Why   string `json:"why"`
	Root  bool   `json:"needs_root"` // sudo would help
}

// A Report is the outcome of an examination.
type Report struct {
	Format   int        `json:"format"`
	Program  string     `json:"program"`
	Version  string     `json:"version"`
	System   string     `json:"system"` // as in "macOS 26.1" or "linux"
	Root     string     `json:"root,omitempty"`
	User     string     `json:"user"` // for whom permissions were checked
	Worst    string     `json:"worst"`
	Findings []finding  `json:"findings"` // in the order of the checks, the worst of each first
	Skipped  []omission `json:"not_checked"`
}

// ExitCode is what the command ends with.
func (r *Report) ExitCode() int {
	return map[string]int{status.Warning: 2, status.Error: 3}[r.Worst]
}

// rank orders severities, the worst first.
func rank(severity string) int {
	return slices.Index([]string{status.Error, status.Warning, status.Notice, severityOK}, severity)
}

// A check is one thing that is looked at.
type check struct {
	ID    string
	Group string // heads it in the output
	Title string // what it answers
	goos  string // the only system that it is for; empty: all
	run   func(*exam)
	none  string // what is ok if it found nothing
	live  bool   // of a staged system there is nothing to look at
}

// checks are all checks, in the order of their output.
func checks() []check {
	return []check{
		{"installs", "Programs", "Is there one socket_vmnet, and what does each serve?", "", checkInstalls, "this program is the only one that was found", false},
		{"paths", "Programs", "Would Lima, and sudo, take the paths?", "", checkPaths, "nothing was found that root runs", false},
		{"sudoers", "Programs", "Does Lima's sudoers file belong to its networks.yaml?", "", checkSudoers, "Lima has no networks with a daemon", false},
		{"signature", "Programs", "Are the programs signed as macOS wants them?", "darwin", checkSignatures, "no socket_vmnet2 is installed whose signature could be looked at", false},
		{"jobs", "Programs", "What do launchd and systemd start?", "", checkJobs, "no job starts a daemon: it is started by hand, or by Lima", false},
		{"daemons", "Daemons", "What do the running daemons say of themselves?", "", checkDaemons, "", true},
		{"permissions", "Daemons", "May this user connect to the sockets?", "", checkPermissions, "there is no daemon's socket that could be connected to", true},
		{"stale", "Daemons", "Are there sockets and pidfiles that nothing serves?", "", checkStale, "no socket and no pidfile is left over", false},
		{"state", "Daemons", "Are leases and identities kept, where no other user can write?", "", checkState, "no daemon tells where it keeps its state", false},
		{"runtime", "Daemons", "Is the directory SOCKET.d as it should be?", "", checkRuntime, "no daemon tells of a runtime directory", false},
		{"limits", "Daemons", "Do the limits of this system suffice for the clients?", "linux", checkLimits, "no daemon tells how many clients it takes", false},
		{"subnets", "Network", "Does every daemon have a subnet of its own?", "", checkSubnets, "no two networks have the same subnet", false},
		{"overlap", "Network", "Does anything else on this host use the subnets?", "", checkOverlap, "nothing else on this host uses the networks' subnets", true},
		{"others", "Network", "Does anything else use vmnet?", "darwin", checkOthers, "nothing else that is known uses vmnet", false},
		{"bootpd", "Network", "Can macOS's DHCP server answer?", "darwin", checkBootpd, "", false},
		{"firewall", "Network", "Does macOS's firewall let the DHCP server answer?", "darwin", checkFirewall, "", true},
		{"pf", "Network", "Does macOS's packet filter let the networks through?", "darwin", checkPF, "pf has nothing that concerns the networks", true},
		{"forwarding", "Network", "Are networks in host mode closed?", "darwin", checkForwarding, "no daemon has a network in host mode", true},
		{"privacy", "Network", "May this host's programs reach guests?", "darwin", checkLocalNetwork, "", false},
		{"reach", "Network", "Can this program reach the guest of --reach?", "", checkReach, "", false},
		{"macos", "System", "What can this macOS do?", "darwin", checkMacOS, "", false},
		{"qemu", "System", "Can this QEMU reconnect?", "", checkQEMU, "there is no QEMU", true},
	}
}

// An exam is an examination: what the checks look at, and what they have found.
type exam struct {
	System
	*find.Inventory
	ctx      context.Context //nolint:containedctx // of the examination
	sockets  []*socket
	subnets  []*subnet
	table    *freenet.Table // what this host uses; nil: not known
	tableErr error          // what is missing in it
	macOS    string         // version, as in "26.1"; empty: not known, or no macOS

	check    check // that is at work
	findings []finding
	skipped  []omission
}

// Examine makes all checks on s.
func Examine(ctx context.Context, s System) *Report {
	return examine(ctx, s, checks())
}

func examine(ctx context.Context, s System, checks []check) *Report {
	ctx, cancel := context.WithTimeout(ctx, examTime)
	defer cancel()
	x := gather(ctx, s)
	r := &Report{
		Format: reportFormat, Program: s.Program, Version: s.Version, System: strings.TrimSpace(strings.Replace(s.GOOS, "darwin", "macOS ", 1) + x.macOS), Root: s.Root,
		User: s.User.String(), Worst: severityOK,
	}
	for _, c := range checks {
		if c.goos != "" && c.goos != s.GOOS {
			continue
		}
		found, skipped := len(x.findings), len(x.skipped)
		x.check = c
		if c.live && s.Run == nil {
			x.skip(false, "on a staged system nothing runs that could be asked")
			continue
		}
		c.run(x)
		if c.none != "" && len(x.findings) == found && len(x.skipped) == skipped {
			x.ok("%s", c.none)
		}
		slices.SortStableFunc(x.findings[found:], func(a, b finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	}
	for _, found := range x.findings {
		if rank(found.Severity) < rank(r.Worst) {
			r.Worst = found.Severity
		}
	}
	r.Findings, r.Skipped = x.findings, x.skipped
	return r
}

// report notes a finding. What is in it may be foreign.
func (x *exam) report(severity string, fix []string, format string, args ...any) {
	found := finding{Check: x.check.ID, group: x.check.Group, Severity: severity, Text: find.Clean(fmt.Sprintf(format, args...)), Fix: []string{}}
	for _, f := range fix {
		found.Fix = append(found.Fix, find.Clean(f))
	}
	x.findings = append(x.findings, found)
}

func (x *exam) ok(format string, args ...any) { x.report(severityOK, nil, format, args...) }

// unreadable notes a path that could not be looked at, unless there is nothing.
func (x *exam) unreadable(path string, err error) {
	if !find.Absent(err) {
		x.skip(errors.Is(err, fs.ErrPermission), "%s: %s", path, hostfs.Reason(err))
	}
}

// skip notes something that was not checked.
func (x *exam) skip(root bool, format string, args ...any) {
	x.skipped = append(x.skipped, omission{Check: x.check.ID, Why: find.Clean(fmt.Sprintf(format, args...)), Root: root && (x.User.UID != 0 || x.User.Staged || x.User.Behind)})
}

// severityWidth is that of the longest of the words.
const severityWidth = len(status.Warning)

// margin is in front of what belongs to a finding.
var margin = strings.Repeat(" ", len("  ")+severityWidth+len("  "))

// Text is the report for people, for a terminal of v: what is well, what was not checked, and what is wrong, which so stands at the end.
// With problems it is errors and warnings alone.
func (r *Report) Text(v status.View, problems bool) string {
	var b strings.Builder
	if !problems {
		b.WriteString(printable.Hang("", fmt.Sprintf("socket_vmnet2 %s on %s, for the user %s%s", r.Version, r.System, r.User, printable.Behind(", below ", r.Root)), v.Width) + "\n")
		r.well(&b, v)
	}
	heading := "\nProblems\n"
	for _, severity := range []string{status.Error, status.Warning, status.Notice} {
		for _, f := range r.Findings {
			switch {
			case f.Severity != severity || problems && severity == status.Notice:
				continue
			case !problems:
				b.WriteString(heading)
				heading = ""
			}
			b.WriteString(v.Finding(margin, severity, fmt.Sprintf("  %-*s  ", severityWidth, severity), f.Check+": "+f.Text, f.Fix))
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String() + printable.Hang("", r.verdict(), v.Width) + "\n"
}

// well writes what is well, by group, and what was not checked.
func (r *Report) well(b *strings.Builder, v status.View) {
	group := ""
	for _, f := range r.Findings {
		if f.Severity != severityOK {
			continue
		}
		if f.group != group {
			group = f.group
			fmt.Fprintf(b, "\n%s\n", group)
		}
		b.WriteString(v.Finding(margin, severityOK, fmt.Sprintf("  %-*s  ", severityWidth, severityOK), f.Check+": "+f.Text, f.Fix))
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nNot checked\n")
	}
	for _, s := range r.Skipped {
		text := s.Check + ": " + s.Why
		if s.Root {
			text += " (run with sudo for that)"
		}
		b.WriteString(printable.Hang(margin, text, v.Width) + "\n")
	}
}

// verdict sums it up.
func (r *Report) verdict() string {
	found := map[string]int{}
	for _, f := range r.Findings {
		found[f.Severity]++
	}
	var parts []string
	for _, s := range []string{status.Error, status.Warning, status.Notice} {
		if found[s] > 0 {
			parts = append(parts, printable.Count(found[s], s))
		}
	}
	text := "Nothing is wrong, as far as was checked"
	if len(parts) > 0 {
		text = "Found " + printable.List(parts)
	}
	return fmt.Sprintf("%s; ok: %d, not checked: %d.", text, found[severityOK], len(r.Skipped))
}
