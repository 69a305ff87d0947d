// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// Machines are the virtual machines perf1, perf2 and so on.
type machines interface {
	// create creates those up to count that are not there.
	create(ctx context.Context, count int) error
	// remove deletes those up to count, but only such as create has made.
	remove(ctx context.Context, count int) error
	// check returns an error that says what to do unless everything is there for a test with the first count machines.
	check(ctx context.Context, count int) error
	// attach starts the daemon that src names, or finds it. The caller ends it.
	attach(ctx context.Context, src source) (*daemon, error)
	// start starts the first count machines on the daemon, with an iperf3 server in the first one.
	start(ctx context.Context, count int, d *daemon) error
	// transfer sends in a direction for so many seconds and returns what iperf3 --json prints.
	transfer(ctx context.Context, direction string, seconds int) ([]byte, error)
	// stop stops those that start has started.
	stop(ctx context.Context) error
	// close ends everything else.
	close() error
}

// findMachines chooses the machines that the options ask for.
func (p *perf) findMachines() {
	switch {
	case p.vm == vzguest:
		p.machines = &vzguests{cabinet: cabinet{p.setting}, options: p.options}
	case p.goos == "darwin":
		p.machines = &lima{setting: p.setting, options: p.options}
	default:
		p.machines = &qemu{cabinet: cabinet{p.setting}, options: p.options}
	}
}

// prefix begins the names of all machines.
const prefix = "perf"
