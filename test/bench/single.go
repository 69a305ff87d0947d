// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	strictGC    = "GOGC=10"
	idleClients = 64
	memoryLimit = 64 // KiB of anonymous memory per idle client
	startTime   = 10 * time.Second
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
	if wanted(keyMemory, b.p.Only) {
		progress("memory of idle clients")
		v, err := b.memory(ctx)
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

// collections counts the garbage collections of the daemon while it relays b.p.Frames frames from batching senders and as
// many from senders of one frame per write. strictGC has the daemon collect after a few hundred KiB of garbage in place of
// some MiB, so that a fraction of a byte per frame shows.
func (b *bench) collections(ctx context.Context) (verdict, error) {
	r, err := b.start(relayDaemon, "GODEBUG=gctrace=1", strictGC)
	if err != nil {
		return verdict{}, err
	}
	count, frames := 0, int64(0)
	for _, batch := range []int{batchFrames, 1} {
		l := load{Clients: 2, Pairs: 1, Batch: batch, Frames: b.p.Frames}
		res, driveErr := b.drive(ctx, r, l, func(event string) {
			if event == eventBegin {
				count -= r.stderr.collections()
			} else {
				count += r.stderr.collections()
			}
		})
		frames += res.Received
		if driveErr == nil && res.Received < int64(b.p.Frames) {
			driveErr = fmt.Errorf("only %d of %d frames arrived in time", res.Received, b.p.Frames)
		}
		err = errors.Join(err, driveErr)
	}
	if err = errors.Join(err, r.stop()); err != nil {
		return verdict{}, err
	}
	v := verdict{Key: keyGC, Text: "garbage collections", Subject: float64(count), AtMost: true, Unit: "collections"}
	v.Remarks = fmt.Sprintf("%d frames with %s", frames, strictGC)
	return v.decide(), nil
}

// memory measures what an idle client costs, in a fresh daemon and after as many active ones have left: the median of
// b.p.MemRuns daemons.
func (b *bench) memory(ctx context.Context) ([]verdict, error) {
	var fresh, later, empty []float64
	for range b.p.MemRuns {
		e, f, l, err := b.memoryOnce(ctx)
		if err != nil {
			return nil, err
		}
		empty, fresh, later = append(empty, e), append(fresh, f), append(later, l)
	}
	figure := func(text string, kib []float64) verdict {
		total := median(kib)
		v := verdict{Key: keyMemory, Text: text, Unit: "KiB", Target: memoryLimit, AtMost: true}
		v.Subject = (total - median(empty)) / idleClients
		v.Remarks = fmt.Sprintf("%.0f KiB in all, %.0f without clients", total, median(empty))
		return v.decide()
	}
	return []verdict{
		figure(fmt.Sprintf("KiB per idle client of %d, fresh", idleClients), fresh),
		figure(fmt.Sprintf("the same after %d active ones left", idleClients), later),
	}, nil
}

// memoryOnce returns one daemon's anonymous memory in KiB without clients, with idle ones, and with idle ones after as many
// active ones have left.
func (b *bench) memoryOnce(ctx context.Context) (empty, fresh, later float64, err error) {
	r, err := b.start(relayDaemon)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err = r.waitSocket(ctx); err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(restTime)
	if empty, err = r.anonymous(); err != nil {
		return 0, 0, 0, err
	}
	if fresh, err = r.withIdle(ctx); err != nil {
		return 0, 0, 0, err
	}
	active := load{Clients: idleClients, Pairs: idleClients / 2, Batch: batchFrames}
	if _, err = b.drive(ctx, r, active, nil); err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(b.p.Settle)
	later, err = r.withIdle(ctx)
	return empty, fresh, later, err
}

// waitSocket returns once the socket is there.
func (r *relay) waitSocket(ctx context.Context) error {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(r.socket); err == nil {
			return nil
		}
		if err := r.alive(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s made no socket%s", r.cmd.Path, r.diagnosis())
}

// withIdle is the anonymous memory with idleClients that have each sent one frame and read whatever comes.
func (r *relay) withIdle(ctx context.Context) (kib float64, err error) {
	leave, err := r.join(ctx, idleClients)
	if err != nil {
		return 0, err
	}
	defer leave()
	time.Sleep(restTime)
	return r.anonymous()
}

// join connects n clients that each send one frame and read whatever comes, until leave is called.
func (r *relay) join(ctx context.Context, n int) (leave func(), err error) {
	var readers sync.WaitGroup
	var conns []net.Conn
	leave = func() {
		for _, c := range conns {
			_ = c.Close()
		}
		readers.Wait()
	}
	for i := range n {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
		if err != nil {
			leave()
			return nil, fmt.Errorf("connect an idle client: %w", err)
		}
		conns = append(conns, c)
		readers.Go(func() { _, _ = io.Copy(io.Discard, c) })
		if _, err := c.Write(hello(i)); err != nil {
			leave()
			return nil, fmt.Errorf("write as an idle client: %w", err)
		}
	}
	return leave, nil
}

// hello is a frame of 64 bytes from client i to client 0, in wire form.
func hello(i int) []byte {
	const frameLen = 64
	b := binary.BigEndian.AppendUint32(nil, frameLen)
	b = append(b, 0x02, 0x62, 0x65, 0x6e, 0, 0)
	b = append(b, 0x02, 0x62, 0x65, 0x6e, 0, byte(i))
	b = append(b, 0x88, 0xb5) // IEEE 802 local experimental
	return append(b, make([]byte, 4+frameLen-len(b))...)
}

// anonymous is the process's resident anonymous memory in KiB.
func (r *relay) anonymous() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid()))
	if err != nil {
		return 0, fmt.Errorf("read the daemon's memory, which needs Linux: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "RssAnon:"); found {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		}
	}
	return 0, fmt.Errorf("find RssAnon in /proc/%d/status", r.pid())
}
