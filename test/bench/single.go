// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const (
	strictGC    = "GOGC=10"
	idleClients = 64
	memoryLimit = 64                     // KiB of anonymous memory per idle client
	restTime    = 500 * time.Millisecond // for a daemon to come to rest: ports start 100 ms after the connection
)

// singles measures the rows that are one figure of the daemon.
func (b *bench) singles(ctx context.Context) ([]verdict, error) {
	var all []verdict
	if wanted(keyGC, b.p.Only) {
		progress("garbage collections")
		v, err := b.collections(ctx)
		if err != nil {
			return nil, fmt.Errorf("count garbage collections: %w", err)
		}
		all = append(all, v)
	}
	for _, m := range memories {
		if !wanted(m.key, b.p.Only) {
			continue
		}
		progress("memory of idle clients, %s", m.text)
		v, err := b.memory(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("measure memory: %w", err)
		}
		all = append(all, v...)
	}
	if wanted(keyIdle, b.p.Only) {
		progress("idle clients on vmnet")
		v, err := b.idle(ctx)
		if err != nil {
			return nil, fmt.Errorf("watch idle clients: %w", err)
		}
		all = append(all, v...)
	}
	return all, nil
}

// counted are the flows during which garbage collections are counted.
var counted = []rig.Load{
	{Batch: rig.BatchFrames},
	{Batch: 1},
	{Batch: rig.BatchFrames, Kinds: rig.Passed + rig.Passed},
	{Batch: 1, Kinds: rig.Passed + rig.Passed},
	{Batch: rig.BatchFrames, Kinds: rig.Unconnected + rig.Connected},
}

// collections counts the garbage collections of the daemon while it relays b.p.Frames frames of each flow. strictGC has the
// daemon collect after a few hundred KiB of garbage in place of some MiB, so that a fraction of a byte per frame shows.
func (b *bench) collections(ctx context.Context) (verdict, error) {
	r, err := b.Start(rounds.Daemon, "GODEBUG=gctrace=1", strictGC)
	if err != nil {
		return verdict{}, err
	}
	count, frames := 0, int64(0)
	for _, l := range counted {
		l.Clients, l.Pairs, l.Frames = 2, 1, b.p.Frames
		l.Mark = func(event string) {
			if event == rig.EventBegin {
				count -= r.Collections()
			} else {
				count += r.Collections()
			}
		}
		res, driveErr := b.Drive(ctx, r, l)
		frames += res.Received
		if driveErr == nil && res.Received < int64(b.p.Frames) {
			driveErr = fmt.Errorf("only %d of %d frames arrived in time", res.Received, b.p.Frames)
		}
		err = errors.Join(err, driveErr)
	}
	if err = errors.Join(err, r.Stop()); err != nil {
		return verdict{}, err
	}
	v := verdict{Key: keyGC, Text: "garbage collections", Subject: float64(count), AtMost: true, Unit: "collections"}
	v.Remarks = fmt.Sprintf("%d frames of %d kinds of flows with %s", frames, len(counted), strictGC)
	return v.decide(), nil
}

// memories are the kinds of clients whose memory is measured.
var memories = []struct{ key, text, kinds string }{
	{keyMemory, "by the stream socket", strings.Repeat(rig.Stream, idleClients)},
	{keyMemoryPassed, "with a passed datagram socket", strings.Repeat(rig.Passed, idleClients)},
	{keyMemoryPath, "by a path", strings.Repeat(rig.Unconnected+rig.Connected, idleClients/2)},
}

// memory measures what an idle client costs, in a fresh daemon and after as many active ones have left: the median of
// b.p.MemRuns daemons.
func (b *bench) memory(ctx context.Context, m struct{ key, text, kinds string }) ([]verdict, error) {
	var fresh, later, empty []float64
	for range b.p.MemRuns {
		e, f, l, err := b.memoryOnce(ctx, m.kinds)
		if err != nil {
			return nil, err
		}
		empty, fresh, later = append(empty, e), append(fresh, f), append(later, l)
	}
	figure := func(text string, kib []float64) verdict {
		total := median(kib)
		v := verdict{Key: m.key, Text: text, Unit: "KiB", Target: memoryLimit, AtMost: true}
		v.Subject = (total - median(empty)) / idleClients
		v.Remarks = fmt.Sprintf("%.0f KiB in all, %.0f without clients", total, median(empty))
		return v.decide()
	}
	return []verdict{
		figure(fmt.Sprintf("KiB per idle client of %d %s, fresh", idleClients, m.text), fresh),
		figure(fmt.Sprintf("the same after %d active ones left", idleClients), later),
	}, nil
}

// memoryOnce returns one daemon's anonymous memory in KiB without clients, with idle ones, and with idle ones after as many
// active ones have left.
func (b *bench) memoryOnce(ctx context.Context, kinds string) (empty, fresh, later float64, err error) {
	r, err := b.Start(rounds.Daemon)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if err = r.WaitSocket(ctx); err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(restTime)
	if empty, err = anonymous(r); err != nil {
		return 0, 0, 0, err
	}
	if fresh, err = withIdle(ctx, r, kinds); err != nil {
		return 0, 0, 0, err
	}
	active := rig.Load{Clients: idleClients, Pairs: idleClients / 2, Batch: rig.BatchFrames, Kinds: kinds}
	if _, err = b.Drive(ctx, r, active); err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(b.p.Settle)
	later, err = withIdle(ctx, r, kinds)
	return empty, fresh, later, err
}

// withIdle is the anonymous memory with clients of these kinds that have each sent one frame and read whatever comes.
func withIdle(ctx context.Context, r *rig.Relay, kinds string) (kib float64, err error) {
	leave, err := r.Join(ctx, kinds)
	if err != nil {
		return 0, err
	}
	defer leave()
	time.Sleep(restTime)
	return anonymous(r)
}

func anonymous(r *rig.Relay) (float64, error) {
	kib, err := r.Anonymous()
	return float64(kib), err
}
