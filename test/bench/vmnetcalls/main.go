// SPDX-License-Identifier: Apache-2.0

//go:build linux && vmnetsim

// Command vmnetcalls makes the same calls in the same order as test/bench/rig/csrc/vmnet.c, through the
// binding and as internal/vmnet uses it: a read ends with a batch in wire form, a write begins with one. For each case it
// prints one JSON object: the CPU time of the whole process over so many packets. The command bench builds and runs both.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	maxBytes = 256 << 10
	patience = 10 * time.Second
)

// A result is one case, in the form that both programs print.
type result struct {
	Op      string `json:"op"`
	PerCall int    `json:"packets_per_call"`
	Packets uint64 `json:"packets"`
	CPU     int64  `json:"cpu_ns"`
}

// A pair is two interfaces on one network.
type pair struct{ from, to api.Interface }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vmnetcalls:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) != 2 {
		return errors.New("usage: vmnetcalls LIBRARY MILLISECONDS")
	}
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	framework, err := ffi.OpenSimulator(args[0], "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var p pair
	for _, ifc := range []*api.Interface{&p.from, &p.to} {
		if *ifc, err = framework.Start(ctx, api.InterfaceConfig{Mode: vnet.ModeShared}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*ifc).Stop(context.Background())) }()
	}
	most := min(p.to.Params().ReadMax, maxBytes/p.to.Params().MaxPacket) // what the daemon reads at once
	for _, n := range []int{1, 32, most} {
		if err := p.flow(n, time.Duration(ms)*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// flow writes batches on one interface and reads them on the other.
func (p *pair) flow(n int, length time.Duration) error {
	w, err := pkt.NewWriter(n)
	if err != nil {
		return err
	}
	size := p.to.Params().MaxPacket
	r, err := pkt.NewReader(n, size)
	if err != nil {
		return err
	}
	b := frames(n, size)
	batches := cycle / n
	write, read := result{Op: "write", PerCall: n}, result{Op: "read", PerCall: n}
	for end := time.Now().Add(length); time.Now().Before(end); {
		t0 := cpuTime()
		for range batches {
			if st := send(p.from, w, b); st != api.Success {
				return fmt.Errorf("write %d packets: %w", n, st)
			}
		}
		t1 := cpuTime()
		for range batches {
			st := p.to.Read(r)
			if got, odd := r.Batch(); st != api.Success || got.Len()+odd != n {
				return fmt.Errorf("read %d of %d packets: %w", got.Len()+odd, n, st)
			}
		}
		write.CPU, read.CPU = write.CPU+t1-t0, read.CPU+cpuTime()-t1
		write.Packets += uint64(batches * n)
	}
	read.Packets = write.Packets
	out := json.NewEncoder(os.Stdout)
	return errors.Join(out.Encode(write), out.Encode(read), w.Free(), r.Free())
}

// send writes b as the daemon does: walked by its prefixes, one descriptor for each frame.
func send(to api.Interface, w *pkt.Writer, b frame.Batch) api.Status {
	w.Begin(b)
	it := b.Iter()
	for it.Next() {
		w.Add(it.Frame())
	}
	st := to.Write(w)
	w.End()
	return st
}

// frames are n frames in wire form.
func frames(n, length int) frame.Batch {
	f := make([]byte, length)
	for i := range f {
		f[i] = 0x5a
	}
	copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
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
