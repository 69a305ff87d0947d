// SPDX-License-Identifier: Apache-2.0

// Command bench measures the built daemon through its sockets and compares it, in the same run, with small C programs that do as
// much with as few system calls. docs/performance.md says what is measured and why so.
//
//	go run ./test/bench -json FILE       measure, add the figures to FILE, print them as a page
//	go run ./test/bench -page FILE ...   print the page of stored figures, beside those of other machines
//	go run ./test/bench -gate          fail when the daemon takes more CPU time for a frame than it did
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// params are what the command line sets.
type params struct {
	daemon      string // path of the binary under test
	only        []string
	rounds      int
	time        time.Duration // of one measurement
	json, page  string
	beside      []string // more of the page
	gate, renew bool
	command     string // that does the same again
}

func main() {
	p, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		err = run(ctx, p)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() (params, error) {
	var p params
	var only string
	f := flag.CommandLine
	f.StringVar(&p.daemon, "daemon", "bin/socket_vmnet2", "the `binary` under test")
	f.StringVar(&only, "only", "", "comma-separated `keys` of the rows to measure; a wrong one gets the list of all")
	f.IntVar(&p.rounds, "rounds", 7, "how often each set-up is measured, in turn with the others")
	f.DurationVar(&p.time, "time", 500*time.Millisecond, "length of one measurement")
	f.StringVar(&p.json, "json", "", "add the figures to `file`, which keeps those of the last two runs")
	f.StringVar(&p.page, "page", "", "print the page of the figures in `file`, which -json wrote, beside those of more files that follow, and measure nothing")
	f.BoolVar(&p.gate, "gate", false, "hold the CPU time of a frame against "+baselineFile)
	f.BoolVar(&p.renew, "renew", false, "measure for -gate at length and write "+baselineFile+": on a quiet machine and on purpose")
	flag.Parse()
	p.beside = flag.Args()
	p.command = strings.TrimSpace("go run ./test/bench " + strings.Join(os.Args[1:], " "))
	known := keys(rows())
	if p.gate || p.renew {
		known = keys(gateRows())
	}
	p.only = strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	for _, key := range p.only {
		if !slices.Contains(known, key) {
			return p, fmt.Errorf("unknown row %q in -only: want some of %s", key, strings.Join(known, ", "))
		}
	}
	return p, nil
}

// A keyed row has a name for the command line.
type keyed interface{ name() string }

func keys[R keyed](rows []R) (all []string) {
	for _, r := range rows {
		all = append(all, r.name())
	}
	return all
}

// chosen are the rows that the command line names, or all of them.
func chosen[R keyed](rows []R, only []string) []R {
	return slices.DeleteFunc(rows, func(r R) bool { return len(only) > 0 && !slices.Contains(only, r.name()) })
}

func run(ctx context.Context, p params) error {
	if p.page != "" {
		var all []report
		for _, path := range append(p.beside, p.page) {
			runs, err := readReports(path)
			if err != nil {
				return err
			}
			all = append(all, runs...)
		}
		return printPage(os.Stdout, all)
	}
	r, err := rig.New(ctx, rig.Options{Daemon: p.daemon, Time: p.time, Warm: warmTime, Progress: func(what string) { progress("%s", what) }})
	if err != nil {
		return err
	}
	defer r.Close()
	if p.gate || p.renew {
		return (&gate{rig: r, renewing: p.renew}).run(ctx, p.only)
	}
	rep := report{Machine: lab.ThisMachine(ctx), Command: p.command, Rounds: p.rounds, Time: p.time.String()}
	b := &bench{Rig: r, time: p.time, rounds: p.rounds, rows: chosen(rows(), p.only)}
	if rep.Figures, err = b.measure(ctx); err != nil {
		return err
	}
	rep.Machine.LoadEnd = lab.LoadAverage()
	return errors.Join(rep.write(p.json), printPage(os.Stdout, []report{rep}))
}

// begun is when the run began.
var begun = time.Now()

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: %4.0f s: "+format+"\n", append([]any{time.Since(begun).Seconds()}, args...)...)
}
