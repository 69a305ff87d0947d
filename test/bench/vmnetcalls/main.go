// SPDX-License-Identifier: Apache-2.0

//go:build linux && vmnetsim

// Command vmnetcalls makes the same calls in the same order as the C program of that name in test/bench/csrc, through the
// binding and as internal/vmnet uses it: a read ends with a batch in wire form, a write begins with one. For each case it
// prints one JSON object: the CPU time of the whole process over so many calls and packets, and how often memory was
// allocated. The command bench builds and runs both.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

const (
	cycle    = 512 // frames that are written before they are read: less than an interface's queue holds
	shortLen = 64  // bytes
	maxBytes = 256 << 10
	patience = 10 * time.Second
)

// A result is one case, in the form that both programs print.
type result struct {
	Op      string `json:"op"`
	PerCall int    `json:"packets_per_call"`
	Len     int    `json:"frame_bytes"`
	Calls   uint64 `json:"calls"`
	Packets uint64 `json:"packets"`
	CPU     int64  `json:"cpu_ns"`
	Mallocs uint64 `json:"mallocs"`
}

// A pair is two interfaces on one network.
type pair struct {
	from, to api.Interface
	length   time.Duration // of each case
	out      *json.Encoder
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vmnetcalls:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: vmnetcalls LIBRARY MILLISECONDS CALLS [event]; CALLS are those whose allocations are counted")
	}
	ms, err := strconv.Atoi(args[1])
	calls, callsErr := strconv.Atoi(args[2])
	if err := errors.Join(err, callsErr); err != nil || ms < 1 {
		return fmt.Errorf("arguments %q: %w", args, err)
	}
	framework, err := ffi.OpenSimulator(args[0], "")
	if err != nil {
		return err
	}
	p := &pair{length: time.Duration(ms) * time.Millisecond, out: json.NewEncoder(os.Stdout)}
	if err := p.open(framework); err != nil {
		return err
	}
	defer p.close()
	if err := p.cases(); err != nil {
		return err
	}
	if calls > 0 {
		if err := p.allocations(calls); err != nil {
			return err
		}
	}
	if len(args) > 3 && args[3] == "event" {
		return p.pingPong()
	}
	return nil
}

func (p *pair) open(framework api.API) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.from, err = framework.Start(ctx, api.InterfaceConfig{Mode: vnet.ModeShared}); err != nil {
		return err
	}
	p.to, err = framework.Start(ctx, api.InterfaceConfig{Mode: vnet.ModeShared})
	return err
}

func (p *pair) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = p.from.Stop(ctx)
	_ = p.to.Stop(ctx)
}

// slots is how many packets the daemon reads at once.
func (p *pair) slots() int { return min(p.to.Params().ReadMax, maxBytes/p.to.Params().MaxPacket) }

func (p *pair) cases() error {
	if err := p.empty(); err != nil {
		return err
	}
	for _, n := range []int{1, 32, p.slots()} {
		for _, length := range []int{p.to.Params().MaxPacket, shortLen} {
			if err := p.flow(n, length); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends are the memory for writing to one interface and for reading from the other.
type ends struct {
	pair *pair
	w    *pkt.Writer
	r    *pkt.Reader
}

func (p *pair) ends(n int) (e ends, err error) {
	if e.w, err = pkt.NewWriter(n); err != nil {
		return e, err
	}
	e.pair = p
	e.r, err = pkt.NewReader(n, p.to.Params().MaxPacket)
	return e, err
}

func (e ends) free() error { return errors.Join(e.w.Free(), e.r.Free()) }

// write sends b as the daemon does: walked by its prefixes, one descriptor for each frame.
func (e ends) write(to api.Interface, b frame.Batch) error {
	e.w.Begin(b)
	it := b.Iter()
	for it.Next() {
		e.w.Add(it.Frame())
	}
	st := to.Write(e.w)
	e.w.End()
	if st != api.Success {
		return st
	}
	return nil
}

// read returns how many frames came, after making a batch of them.
func (e ends) read(from api.Interface) (int, error) {
	if st := from.Read(e.r); st != api.Success {
		return 0, st
	}
	b, odd := e.r.Batch()
	return b.Len() + odd, nil
}

// flow writes batches on one interface and reads them on the other.
func (p *pair) flow(n, length int) error {
	e, err := p.ends(n)
	if err != nil {
		return err
	}
	b := frames(n, length, 1, 2)
	batches := cycle / n
	write := result{Op: "write", PerCall: n, Len: length}
	read := result{Op: "read", PerCall: n, Len: length}
	for end := time.Now().Add(p.length); time.Now().Before(end); {
		t0 := cpuTime()
		for range batches {
			if err := e.write(p.from, b); err != nil {
				return fmt.Errorf("write %d packets: %w", n, err)
			}
		}
		t1 := cpuTime()
		for range batches {
			if got, err := e.read(p.to); err != nil || got != n {
				return fmt.Errorf("read %d of %d packets: %w", got, n, err)
			}
		}
		write.CPU, read.CPU = write.CPU+t1-t0, read.CPU+cpuTime()-t1
		write.Calls += uint64(batches)
	}
	write.Packets = write.Calls * uint64(n)
	read.Calls, read.Packets = write.Calls, write.Packets
	return errors.Join(p.out.Encode(write), p.out.Encode(read), e.free())
}

// empty reads where there is nothing.
func (p *pair) empty() error {
	e, err := p.ends(p.slots())
	if err != nil {
		return err
	}
	r := result{Op: "empty", PerCall: p.slots()}
	begin := cpuTime()
	for end := time.Now().Add(p.length); time.Now().Before(end); {
		for range cycle {
			if got, err := e.read(p.to); err != nil || got != 0 {
				return fmt.Errorf("read %d packets that nobody sent: %w", got, err)
			}
		}
		r.Calls += cycle
	}
	r.CPU = cpuTime() - begin
	return errors.Join(p.out.Encode(r), e.free())
}

// allocations counts those of so many writes, most of which the other interface has no room for, and of as many reads.
func (p *pair) allocations(calls int) error {
	e, err := p.ends(1)
	if err != nil {
		return err
	}
	b := frames(1, shortLen, 1, 2)
	for _, c := range []struct {
		op   string
		call func() error
	}{
		{"alloc-write", func() error { return e.write(p.from, b) }},
		{"alloc-read", func() error {
			_, err := e.read(p.to)
			return err
		}},
	} {
		before := mallocs()
		for range calls {
			if err := c.call(); err != nil {
				return fmt.Errorf("%s: %w", c.op, err)
			}
		}
		r := result{Op: c.op, PerCall: 1, Len: shortLen, Calls: uint64(calls), Mallocs: mallocs() - before}
		if err := p.out.Encode(r); err != nil {
			return err
		}
	}
	return e.free()
}

// frames are n frames in wire form.
func frames(n, length int, from, to byte) frame.Batch {
	f := make([]byte, length)
	for i := range f {
		f[i] = 0x5a
	}
	copy(f, []byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5})
	var buf []byte
	for range n {
		buf = frame.Append(buf, f)
	}
	return frame.NewBatch(buf, n)
}

// cpuTime is the process's, in ns.
func cpuTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has it
	}
	return t.Nano()
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
