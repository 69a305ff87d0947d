// SPDX-License-Identifier: Apache-2.0

// Command perf is what test/perf.sh runs. It measures TCP between virtual machines and the host through a daemon, with the
// verbs, the options and the results of socket_vmnet's own test/perf.sh, so that published results compare, and notes what
// the daemon needed for it: processor time, context switches, memory.
//
//	macOS                                        Linux
//
//	  perf1          perf2  ...  Lima              perf1          perf2  ...  QEMU, emulated (TCG)
//	  lima0          lima0                         eth0           eth0
//	    |              |                             |              |
//	    +--- SOCKET ---+                             +--- SOCKET ---+
//	           |                                            |
//	   daemon, of the user's                         daemon, started here
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
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// A setting is what the program finds around it. Tests bring one of their own.
type setting struct {
	goos     string
	uid      int           // of the user
	root     string        // of the source tree
	runDir   string        // where daemons that are started as root have their sockets
	cache    string        // where QEMU's machines are kept
	patience time.Duration // for a machine to have an address, a daemon to be ready
	stdout   io.Writer     // one line for each event, tables
	stderr   io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := command(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func command(ctx context.Context, args []string) int {
	s := &setting{
		goos: runtime.GOOS, uid: os.Geteuid(), root: os.Getenv("PERF_ROOT"), runDir: "/var/run", cache: os.Getenv("PERF_CACHE"),
		patience: time.Minute, stdout: os.Stdout, stderr: os.Stderr,
	}
	var err error
	if s.root == "" {
		s.root, err = lab.ModuleRoot()
	}
	if s.cache == "" && err == nil {
		var e2e string
		e2e, err = lab.CacheDir()
		s.cache = filepath.Join(filepath.Dir(e2e), "perf")
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "perf: %v\n", err)
		return 1
	}
	return s.main(ctx, args)
}

// main does what args say and returns the exit code: 0 or 1.
func (s *setting) main(ctx context.Context, args []string) int {
	o, err := parse(args, s.goos)
	if errors.Is(err, errHelp) {
		fmt.Fprint(s.stdout, usage)
		return 0
	}
	if err == nil {
		err = s.do(ctx, o)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		fmt.Fprintln(s.stderr, "perf: interrupted; what it started has been ended")
	} else {
		fmt.Fprintf(s.stderr, "perf: %v\n", err)
	}
	if errors.Is(err, errUsage) {
		fmt.Fprint(s.stderr, "\n", usage)
	}
	return 1
}

func (s *setting) do(ctx context.Context, o options) error {
	if o.verb == "report" {
		return s.report(o)
	}
	p := &perf{setting: s, options: o}
	p.findMachines()
	switch o.verb {
	case "create":
		return p.machines.create(ctx, o.count)
	case "delete":
		return p.machines.remove(ctx, o.count)
	case "run":
		return p.run(ctx)
	}
	return p.compare(ctx)
}

// say prints one line about what happens.
func (s *setting) say(format string, args ...any) {
	fmt.Fprintf(s.stdout, "[perf] "+format+"\n", args...)
}
