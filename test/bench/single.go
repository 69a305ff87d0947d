// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const strictGC = "GOGC=10"

// singles measures the rows that are figures of the daemon.
func (b *bench) singles(ctx context.Context) ([]verdict, error) {
	var all []verdict
	for _, single := range []struct {
		key, text string
		measure   func(context.Context) ([]verdict, error)
	}{
		{keyGC, "garbage collections", b.collections},
		{keyMemory, "memory of idle clients by the stream socket", b.memory(keyMemory)},
		{keyMemoryPassed, "memory of idle clients with passed datagram sockets", b.memory(keyMemoryPassed)},
		{keyMemoryPath, "memory of idle clients by paths", b.memory(keyMemoryPath)},
		{keyMemoryBusy, "memory with busy clients", b.busyMemory},
		{keyStart, "start", b.start},
		{keyIdle, "idle clients on the embedded network", b.idle},
		{keyIdleVmnet, "idle clients on vmnet", b.idleVmnet},
	} {
		if !b.p.single(single.key) {
			continue
		}
		progress("%s", single.text)
		v, err := single.measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", single.text, err)
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
func (b *bench) collections(ctx context.Context) ([]verdict, error) {
	r, err := b.Start(rounds.Daemon, "GODEBUG=gctrace=1", strictGC)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	v := verdict{Key: keyGC, Text: "garbage collections", Subject: float64(count), AtMost: true, Unit: "collections"}
	v.Remarks = fmt.Sprintf("%d frames of %d kinds of flows with %s", frames, len(counted), strictGC)
	return []verdict{v.decide()}, nil
}
