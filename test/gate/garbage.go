// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// strictGC has the daemon collect garbage after 400 KiB of it, so that two bytes for a frame show.
const strictGC = "GOGC=10"

// garbageTries is how often garbage is looked for before it is believed: something else in the daemon may have been due just then.
const garbageTries = 3

// flows are the kinds of clients whose frames may not make garbage.
var flows = []struct {
	text  string
	kind  string
	kinds string
	batch int
}{
	{"64 frames a write", rounds.Daemon, "ss", rig.BatchFrames},
	{"a frame a write", rounds.Daemon, "ss", 1},
	{"passed datagram sockets", rounds.Daemon, "dd", rig.BatchFrames},
	{"passed datagram sockets, a frame a call", rounds.Daemon, "dd", 1},
	{"stream > path, unconnected", rounds.Daemon, "su", rig.BatchFrames},
	{"paths, unconnected > connected", rounds.Daemon, "uc", rig.BatchFrames},
	{"simulated vmnet", rounds.DaemonVmnet, "ss", rig.BatchFrames},
}

// noGarbage is an error when frames cost the daemon garbage collections.
func (g *gate) noGarbage(ctx context.Context) error {
	progress("garbage collections")
	var errs []error
	for _, f := range flows {
		if err := g.rig.Prepare(ctx, f.kind); err != nil {
			return err
		}
		count := 0
		for range garbageTries {
			var err error
			l := rig.Load{Clients: 2, Pairs: 1, Kinds: f.kinds, Batch: f.batch, Frames: g.p.frames, Time: 100 * time.Millisecond, Warm: warmTime}
			if count, err = g.collections(ctx, f.kind, l); err != nil {
				return fmt.Errorf("count garbage collections with %s: %w", f.text, err)
			}
			if count == 0 {
				break
			}
		}
		fmt.Printf("%d collections with %s in %d frames: %s\n", count, strictGC, g.p.frames, f.text)
		if count > 0 {
			errs = append(errs, fmt.Errorf("%d garbage collections in %d frames of %q, want none: the data path allocates; find where with testing.AllocsPerRun",
				count, g.p.frames, f.text))
		}
	}
	return errors.Join(errs...)
}

// collections counts those of a daemon while it relays the load's frames.
func (g *gate) collections(ctx context.Context, kind string, l rig.Load) (count int, err error) {
	r, err := g.rig.Start(kind, "GODEBUG=gctrace=1", strictGC)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	l.Mark = func(event string) {
		if event == rig.EventBegin {
			count -= r.Collections()
		} else {
			count += r.Collections()
		}
	}
	res, err := g.rig.Drive(ctx, r, l)
	if err == nil && res.Received < int64(l.Frames) {
		err = fmt.Errorf("only %d of %d frames arrived in time", res.Received, l.Frames)
	}
	return count, err
}
