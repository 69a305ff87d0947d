// SPDX-License-Identifier: Apache-2.0

// Command soak runs a daemon under dozens of clients of every kind, good and hostile, that come and go, while the daemon is
// stopped, killed, restarted and upgraded, and checks all the time that a client gets what is its own and nothing else, that nothing
// is changed, cut, doubled or out of order, that the daemon's counters are true, and that it goes back to using what it used at the
// beginning.
//
// All decisions come from one seed, which is printed. The daemon's log, with what was done to it, is in daemon.log, in a directory
// that is kept when something was found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The networks that the daemon can be run on.
const (
	backendEmbedded  = "usernet"
	backendSimulator = "vmnetsim"
)

// options are what a run is to be like.
type options struct {
	Duration  time.Duration
	Seed      uint64
	Clients   int // guests; hostile ones and witnesses come on top
	Backend   string
	AntiSpoof bool
	Race      bool          // the daemon is built with the race detector
	Pace      time.Duration // between two things that happen to the daemon, on average
	Pause     time.Duration // between two steps of a guest, on average
	StopLimit time.Duration
	Patience  time.Duration // for what must come soon
	Binary    string        // a daemon that is built already
	Dir       string

	enough func(*result) bool // see run
}

func defaults() options {
	return options{
		Duration: 2 * time.Minute, Clients: 24, Backend: backendEmbedded, Pace: 6 * time.Second, Pause: 40 * time.Millisecond,
		StopLimit: 2 * time.Second, Patience: 15 * time.Second,
	}
}

func (o *options) flags(f *flag.FlagSet) {
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long the daemon is under load")
	f.Uint64Var(&o.Seed, "seed", 0, "of all decisions; 0: a random one")
	f.IntVar(&o.Clients, "clients", o.Clients, "good clients at once, at least 2; some 10 others come on top")
	f.StringVar(&o.Backend, "backend", o.Backend, "the daemon's network: usernet or vmnetsim, the simulated vmnet")
	f.BoolVar(&o.AntiSpoof, "anti-spoof", o.AntiSpoof, "run the daemon with --anti-spoof, and forge the addresses of good clients")
	f.BoolVar(&o.Race, "race", o.Race, "build the daemon with the race detector; needs a C compiler")
	f.DurationVar(&o.Pace, "pace", o.Pace, "time between two things that happen to the daemon, on average")
	f.DurationVar(&o.Pause, "pause", o.Pause, "time between two steps of a client, on average; a longer one is less load")
	f.DurationVar(&o.StopLimit, "stop-limit", o.StopLimit, "how long the daemon may take to stop")
	f.DurationVar(&o.Patience, "patience", o.Patience, "how long two clients that talk all the time may hear nothing")
	f.StringVar(&o.Binary, "binary", "", "a daemon that is built already, with -tags vmnetsim for the simulator")
	f.StringVar(&o.Dir, "dir", "", "where to put sockets, logs and what was decided; a short path; default: a new one, removed if all is well")
}

// check completes o.
func (o *options) check() error {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()>>1 + 1
	}
	if o.Clients < 2 {
		return fmt.Errorf("-clients=%d: at least 2 are needed to talk to each other", o.Clients)
	}
	if o.Clients > maxClients {
		return fmt.Errorf("-clients=%d: the daemon is run for %d", o.Clients, maxClients)
	}
	if o.Backend != backendEmbedded && o.Backend != backendSimulator {
		return fmt.Errorf("-backend=%s: %s or %s", o.Backend, backendEmbedded, backendSimulator)
	}
	return nil
}

func main() {
	os.Exit(run0(os.Args[1:], os.Stdout, os.Stderr))
}

// run0 is main with its exit code: 1 for violations, 2 when there was no run.
func run0(args []string, stdout, stderr io.Writer) int {
	o := defaults()
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	o.flags(f)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	res, err := soak(ctx, o, stdout)
	if res != nil {
		res.print(stdout)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "soak:", err)
		return 2
	case len(res.Violations) > 0:
		return 1
	}
	return 0
}
