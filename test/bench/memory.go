// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const (
	idleClients = 64
	memoryLimit = 64                     // KiB of anonymous memory per idle client
	busyLimit   = 25_000_000 / 1024      // KiB of the whole daemon with 8 busy clients
	restTime    = 500 * time.Millisecond // for a daemon to come to rest: ports start 100 ms after the connection
)

// memories are the kinds of clients whose memory is measured.
var memories = []struct{ key, text, kinds string }{
	{keyMemory, "by the stream socket", strings.Repeat(rig.Stream, idleClients)},
	{keyMemoryPassed, "with a passed datagram socket", strings.Repeat(rig.Passed, idleClients)},
	{keyMemoryPath, "by a path", strings.Repeat(rig.Unconnected+rig.Connected, idleClients/2)},
}

// memory measures what an idle client costs, in a fresh daemon and after as many active ones have left: the median of
// b.p.MemRuns daemons.
func (b *bench) memory(key string) func(context.Context) ([]verdict, error) {
	m := memories[slices.IndexFunc(memories, func(m struct{ key, text, kinds string }) bool { return m.key == key })]
	return func(ctx context.Context) ([]verdict, error) {
		var fresh, later, empty []float64
		for run := range b.p.MemRuns {
			e, f, l, err := b.memoryOnce(ctx, m.kinds)
			if err != nil {
				return nil, err
			}
			empty, fresh, later = append(empty, e), append(fresh, f), append(later, l)
			if m.key == keyMemory {
				b.fileMemory("without clients", run, rig.Load{Kinds: m.kinds}, e)
			}
			idle := rig.Load{Clients: idleClients, Kinds: m.kinds}
			b.fileMemory("idle "+transport(idle), run, idle, f)
			b.fileMemory("idle "+transport(idle)+" after busy ones left", run, idle, l)
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
}

// fileMemory files the anonymous memory of the daemon as a round.
func (b *bench) fileMemory(setup string, run int, l rig.Load, kib float64) {
	r := rounds.Round{
		Series: seriesMemory, Setup: "daemon " + setup, Round: run, Relay: rounds.Daemon, Transport: transport(l),
		Clients: l.Clients, Active: activeClients(l), Seconds: restTime.Seconds(), MemoryKiB: uint64(kib),
	}
	if l.Clients == 0 {
		r.Transport = ""
	}
	if l.Pairs > 0 {
		r.Sender, r.Direction, r.Frame, r.Seconds = sender(l), rounds.ClientToClient, l.FrameLen(), l.Time.Seconds()
	}
	b.more = append(b.more, r)
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

// busy are the flows of 8 clients with which the daemon's memory is measured. The first has the target.
var busy = []struct {
	text string
	load rig.Load
}{
	{"8 busy clients", rig.Load{}},
	{"8 busy clients, a frame a write", rig.Load{Batch: 1}},
	{"8 busy clients, 32768 bytes", withFrame(rig.Load{}, longestStream)},
	{"8 busy clients, passed datagram sockets", rig.Load{Kinds: passed}},
	{"8 busy clients, passed datagram sockets, 65550 bytes", withFrame(rig.Load{Kinds: passed}, longest)},
}

// busyMemory measures the daemon's anonymous memory at the end of a while of four flows at once: the most of b.p.MemRuns daemons.
func (b *bench) busyMemory(ctx context.Context) ([]verdict, error) {
	var all []verdict
	for i, kind := range busy {
		l := kind.load
		l.Clients, l.Pairs, l.Time = 8, 4, 2*b.p.Time
		if l.Batch == 0 {
			l.Batch = rig.BatchFrames
		}
		v := verdict{Key: keyMemoryBusy, Text: "KiB with " + kind.text, Unit: "KiB"}
		if i == 0 {
			v.Target, v.AtMost = busyLimit, true
		}
		for run := range b.p.MemRuns {
			res, err := b.Measure(ctx, rounds.Daemon, l)
			if err != nil {
				return nil, err
			}
			v.Subject = max(v.Subject, float64(res.MemoryKiB))
			b.fileMemory(kind.text, run, l, float64(res.MemoryKiB))
		}
		all = append(all, v.decide())
	}
	return all, nil
}
