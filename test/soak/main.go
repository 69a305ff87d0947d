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
	Record    string // a file for the result and what was used over time

	enough func(*result) bool // see run
}

func defaults() options {
	return options{
		Duration: 2 * time.Minute, Clients: 24, Backend: backendEmbedded, Pace: 6 * time.Second, Pause: 40 * time.Millisecond,
		StopLimit: 2 * time.Second, Patience: 15 * time.Second,
	}
}

// check completes o.
func (o *options) check() error {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()>>1 + 1
	}
	most := maxClients
	if o.Backend == backendSimulator { // it has room for 32 interfaces; who shares one misses frames when that changes
		most = 14
	}
	if o.Clients < 2 || o.Clients > most {
		return fmt.Errorf("-clients=%d: 2 to %d", o.Clients, most)
	}
	if o.Backend != backendEmbedded && o.Backend != backendSimulator {
		return fmt.Errorf("-backend=%s: %s or %s", o.Backend, backendEmbedded, backendSimulator)
	}
	return nil
}

// main exits with 1 for violations, 2 when there was no run.
func main() {
	o := defaults()
	flag.DurationVar(&o.Duration, "duration", o.Duration, "how long the daemon is under load")
	flag.Uint64Var(&o.Seed, "seed", 0, "of all decisions; 0: a random one")
	flag.IntVar(&o.Clients, "clients", o.Clients, "good clients at once, at least 2; some 10 others come on top")
	flag.StringVar(&o.Backend, "backend", o.Backend, "the daemon's network: usernet or vmnetsim, the simulated vmnet")
	flag.BoolVar(&o.AntiSpoof, "anti-spoof", o.AntiSpoof, "run the daemon with --anti-spoof, and forge the addresses of good clients")
	flag.BoolVar(&o.Race, "race", o.Race, "build the daemon with the race detector; needs a C compiler")
	flag.StringVar(&o.Binary, "binary", "", "a daemon that is built already, with -tags vmnetsim for the simulator")
	flag.StringVar(&o.Record, "record", "", "a file to write the result to, as Markdown with plots of memory and descriptors")
	flag.StringVar(&o.Dir, "dir", "",
		"where to put sockets, logs and what was decided; a short path; default: a new one, removed if all is well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	res, err := soak(ctx, o, os.Stdout)
	stop()
	if res != nil {
		res.print(os.Stdout)
		err = errors.Join(err, res.record(o.Record))
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case len(res.Violations) > 0:
		os.Exit(1)
	}
}
