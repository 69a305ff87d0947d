// SPDX-License-Identifier: Apache-2.0

// Package fakevm measures relays with fake virtual machines: TCP/IP stacks of the kernel in network namespaces of their own, each
// behind a TAP device that a small C program joins with a client socket of the relay, as a VMM would. They are much faster than
// a guest on an emulated CPU and, unlike a load generator, send what real guests send: TCP with its acknowledgements,
// retransmissions and congestion control.
//
//	fakevm a                      fakevm b                    "the host", a namespace as well
//	iperf3                        iperf3                      iperf3
//	  | TCP/IP                      | TCP/IP                     | TCP on the loopback
//	eth0 (TAP)                    eth0 (TAP)                     |
//	  | csrc/fakevm.c               | csrc/fakevm.c              |
//	  +---- unix socket ---- relay ----- unix socket ----+       |
//	                          +--- its user-space stack ---------+
//
// The namespaces have no names: they end with the threads and processes that are in them, whatever ends those. Nothing in
// them reaches the machine's own network.
package fakevm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// The series. All of them are measured by default.
const (
	SeriesTCP     = "tcp"         // client to client, by relay and MTU
	SeriesLatency = "tcp-latency" // round trips of one byte over TCP, idle and beside a bulk transfer
	SeriesGateway = "gateway"     // client to host and back, through a user-space stack
)

// AllSeries are the series in the order they are reported in.
func AllSeries() []string { return []string{SeriesTCP, SeriesLatency, SeriesGateway} }

// ErrUnable is in the error of Run where the machine lacks something. Its text says what and what to do.
var ErrUnable = errors.New("fake VMs cannot run here")

// Options say what Run measures. Daemon is required.
type Options struct {
	Daemon     string   // path of socket_vmnet2; without a slash it is looked up in PATH
	DaemonArgs []string // more flags for it
	Gvproxy    string   // path of gvproxy; empty: the one in PATH or in the cache of test/e2e/setup.sh
	Rounds     int      // measurements of each set-up, interleaved; 0 = 9
	Seconds    int      // of each measurement; 0 = 1
	Series     []string // some of AllSeries; empty = all
	Only       []string // measure only the set-ups whose name contains one of these; empty = all
	Command    string   // goes into the file: what makes such a file again
	Out        string   // where the file goes; empty = nowhere
	Progress   io.Writer
}

const (
	defaultRounds  = 9
	defaultSeconds = 1
	maxRounds      = 1000
	maxSeconds     = 3600
)

// check fills in the defaults and refuses what makes no sense.
func (o *Options) check() error {
	if o.Rounds == 0 {
		o.Rounds = defaultRounds
	}
	if o.Seconds == 0 {
		o.Seconds = defaultSeconds
	}
	if len(o.Series) == 0 {
		o.Series = AllSeries()
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Rounds < 0 || o.Rounds > maxRounds {
		return fmt.Errorf("%d rounds: want 1 to %d", o.Rounds, maxRounds)
	}
	if o.Seconds < 0 || o.Seconds > maxSeconds {
		return fmt.Errorf("%d seconds for each measurement: want 1 to %d", o.Seconds, maxSeconds)
	}
	for _, s := range o.Series {
		if !slices.Contains(AllSeries(), s) {
			return fmt.Errorf("unknown series %q: want some of %s", s, strings.Join(AllSeries(), ", "))
		}
	}
	return nil
}

// Run measures and returns all rounds, which it also writes to Options.Out. It needs Linux, root, /dev/net/tun, gcc, ip and
// iperf3, and for the series gateway gvproxy; where something is missing the error is ErrUnable. Whatever Run starts has
// ended when it returns, also when ctx is done.
func Run(ctx context.Context, o Options) (rounds.File, error) {
	if err := o.check(); err != nil {
		return rounds.File{}, err
	}
	setups, err := choose(o)
	if err != nil {
		return rounds.File{}, err
	}
	l, err := newLab(ctx, o, setups)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err() // a compiler that was killed because of it is no news
	}
	if err != nil {
		return rounds.File{}, err
	}
	f, err := l.measure(ctx, setups)
	if closeErr := l.close(); err == nil {
		err = closeErr
	}
	if err == nil && o.Out != "" {
		err = rounds.Write(o.Out, f)
	}
	return f, err
}

func (o *Options) progress(format string, args ...any) {
	fmt.Fprintf(o.Progress, "fake VMs: "+format+"\n", args...)
}

// duration is how long a measurement takes.
func (o *Options) duration() time.Duration { return time.Duration(o.Seconds) * time.Second }
