// SPDX-License-Identifier: Apache-2.0

// Command perf is what test/perf.sh runs. It measures TCP between virtual machines and the host through a daemon, with the
// verbs, the options and the results of socket_vmnet's own test/perf.sh, so that published results compare, and notes the
// processor time that the daemon needed.
//
//	macOS                                        Linux
//
//	  perf1          perf2  ...  Lima              perf1          perf2  ...  QEMU, emulated (TCG)
//	  lima0          lima0                         eth0           eth0
//	    |              |                             |              |
//	    +--- SOCKET ---+                             +--- SOCKET ---+
//	           |                                            |
//	   daemon, of the user's                        daemon, started here
//	           |                                            |
//	   bridge100, iperf3 on the host                 usernet, iperf3 on the host's loopback
//
//	host-to-vm   iperf3 on the host   -> perf1
//	vm-to-host   perf1                -> iperf3 on the host
//	vm-to-vm     perf2                -> perf1
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// A perf is one call of the program. Tests bring their own surroundings.
type perf struct {
	options
	goos     string
	uid      int           // of the user
	root     string        // of the source tree, the working directory once the options are read
	runDir   string        // where daemons that are started as root have their sockets
	patience time.Duration // for a machine to have an address, a daemon to be ready
	stdout   io.Writer     // one line for each event, tables
	stderr   io.Writer
	machines machines
}

// Machines are the virtual machines vmnet2-perf1, vmnet2-perf2 and so on.
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
}

// name is the name of machine n, from 1: delete deletes what has it.
func name(n int) string { return "vmnet2-perf" + strconv.Itoa(n) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	p := &perf{
		goos: runtime.GOOS, uid: os.Geteuid(), root: os.Getenv("PERF_ROOT"), runDir: "/var/run",
		patience: time.Minute, stdout: os.Stdout, stderr: os.Stderr,
	}
	code := p.main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// main does what args say and returns the exit code: 0 or 1.
func (p *perf) main(ctx context.Context, args []string) int {
	err := p.do(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errHelp):
		fmt.Fprint(p.stdout, usage)
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(p.stderr, "perf: interrupted; what it started has been ended")
	default:
		fmt.Fprintf(p.stderr, "perf: %v\n", err)
	}
	return 1
}

func (p *perf) do(ctx context.Context, args []string) (err error) {
	if p.options, err = parse(args, p.goos); err != nil {
		return err
	}
	if p.root == "" {
		if p.root, err = lab.ModuleRoot(); err != nil {
			return err
		}
	}
	if err := os.Chdir(p.root); err != nil { // what builds programs looks for go.mod from here
		return err
	}
	p.machines = &qemu{perf: p}
	if p.goos == "darwin" {
		p.machines = &lima{perf: p}
	}
	switch p.verb {
	case "create":
		if err := p.machines.create(ctx, p.count); err != nil {
			return err
		}
		p.say("Ready: test/perf.sh run -c %d -v %s", p.count, p.vm)
		return nil
	case "delete":
		return p.machines.remove(ctx, p.count)
	case "run":
		return p.run(ctx)
	}
	return p.compare(ctx)
}

// say prints one line about what happens.
func (p *perf) say(format string, args ...any) {
	fmt.Fprintf(p.stdout, "[perf] "+format+"\n", args...)
}
