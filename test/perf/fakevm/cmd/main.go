// SPDX-License-Identifier: Apache-2.0

// Command cmd runs the measurements of package fakevm by themselves: go run ./test/perf/fakevm/cmd --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/test/perf/fakevm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fakevm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := fakevm.Options{Progress: os.Stderr, Command: strings.Join(append([]string{"go run ./test/perf/fakevm/cmd"}, args...), " ")}
	var series, only, extra string
	var quick bool
	f := flag.NewFlagSet("fakevm", flag.ContinueOnError)
	f.StringVar(&o.Daemon, "daemon", "bin/socket_vmnet2", "the `binary` under test")
	f.StringVar(&extra, "daemon-args", "", "more `flags` for it, separated by spaces")
	f.StringVar(&o.Gvproxy, "gvproxy", "", "`path` of gvproxy (default: where test/e2e/setup.sh puts it, else the one in PATH)")
	f.IntVar(&o.Rounds, "rounds", 9, "measurements of each set-up, interleaved")
	f.IntVar(&o.Seconds, "seconds", 1, "length of each")
	f.StringVar(&series, "series", "", "comma-separated `series`: "+strings.Join(fakevm.AllSeries(), ", ")+" (default: all)")
	f.StringVar(&only, "only", "", "comma-separated `parts` of names: only set-ups that have one of them in theirs")
	f.BoolVar(&quick, "quick", false, "one round: shows that everything works, not how fast")
	f.StringVar(&o.Out, "o", "", "write the raw rounds to `file`")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if quick {
		o.Rounds = 1
	}
	o.DaemonArgs, o.Series, o.Only = strings.Fields(extra), list(series), list(only)
	file, err := fakevm.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Print(fakevm.Table(file))
	return nil
}

// list splits at commas.
func list(s string) (all []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part != "" {
			all = append(all, part)
		}
	}
	return all
}
