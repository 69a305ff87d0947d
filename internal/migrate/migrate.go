// SPDX-License-Identifier: Apache-2.0

// Package migrate finds what of socket_vmnet a machine has - programs, launchd jobs, Lima's networks, Colima, minikube, daemons
// and their clients - and makes a plan of how to move it to socket_vmnet2 and back. It changes nothing: it reads, and asks ps,
// launchctl and lsof where they are.
//
// All that is read belongs to somebody else. What is unreadable, too large or not what it should be becomes a Problem of the
// plan and hinders nothing else.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

type (
	// A Runner runs a program to its end and returns what it wrote to its standard output.
	Runner = find.Runner
	// A Process is one that runs.
	Process = find.Process
)

// A System is what there is to look at.
type System struct {
	Root    string   // a staged root directory; empty: the machine itself
	Homes   []string // home directories, below Root
	GOOS    string
	Program string // the socket_vmnet2 that the commands of the plan are for
	Version string // of that program

	Env       func(key string) string                      // nil: nothing is set
	Run       Runner                                       // nil: no program is run
	Processes func(ctx context.Context) ([]Process, error) // nil: processes are not looked at
}

// staged tells whether the machine itself is looked at.
func (s System) staged() bool { return s.Root != "" && s.Root != "/" }

func (s System) env(key string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(key)
}

// A finder is one search. It fills its plan.
type finder struct {
	System
	ctx       context.Context //nolint:containedctx // of the one call of Find
	plan      *Plan
	processes []Process
	asked     bool     // processes are known
	services  []string // labels of jobs that the plan makes
	moved     []string // sockets that they serve
}

// findTime is how long the programs that are asked may take in all.
const findTime = 30 * time.Second

// Find looks at s and returns what it found and the plan.
func Find(ctx context.Context, s System) *Plan {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	f := &finder{System: s, ctx: ctx, plan: newPlan(s)}
	f.findProcesses()
	f.findInstalls()
	f.findJobs()
	f.findDaemons()
	f.findLima()
	f.findColima()
	f.findMinikube()
	f.findClients()
	f.findConflicts()
	f.makeChanges()
	slices.Sort(f.plan.Looked)
	f.plan.Looked = slices.Compact(f.plan.Looked)
	return f.plan
}

// clean makes foreign text one short line: nothing that is read can move the cursor or flood the screen.
func clean(text string) string { return printable.Line(text, maxText) }

// maxText is the longest text that is taken over from what is read, in bytes: longer than any path.
const maxText = 1024

// run asks a program, which may take this long.
func (f *finder) run(limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	out, err := f.Run(ctx, name, args...)
	if err != nil && ctx.Err() != nil {
		return out, fmt.Errorf("gave no answer within %v", limit)
	}
	return out, err
}

// notThere tells whether a program failed because the machine has none of that name.
func notThere(err error) bool { return errors.Is(err, exec.ErrNotFound) }
