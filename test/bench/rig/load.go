// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// BatchFrames is how many frames a batching sender puts into one write: about as many as a TSO-sized buffer holds.
const BatchFrames = 64

// OpenLoop is a Load.Window without an end: nothing is acknowledged.
const OpenLoop = -1

const (
	usualFrame  = 1514
	usualWindow = 256
)

// A Load is what the clients of one measurement do. Clients 0-1, 2-3, ... are sender and receiver of the pairs, the others
// connect, say who they are, and read whatever comes.
type Load struct {
	Clients int
	Pairs   int
	Batch   int           // frames per write of a sender; 0 or 1: a writev per frame, as QEMU does
	Kinds   string        // how each client is connected, see the constants; empty: all by the stream socket
	Fan     bool          // all others send to the last client, in place of pairs
	Echo    bool          // the first pair has a ping-pong of 64 bytes instead of a windowed flow
	Frame   int           // bytes of a frame of a flow with its Ethernet header; 0 = 1514
	Window  int           // frames of a flow that may be in flight; 0 = 256, OpenLoop = any number
	Frames  int           // measure until as many have arrived, and as many round trips, if that takes longer
	Time    time.Duration // 0: as the Rig's Options say
	Warm    time.Duration // likewise
	Slots   int           // equal parts of Time whose figures are wanted as well; 0 or 1: none

	// Mark, if not nil, is told when the measurement begins (EventBegin) and when it is over and the clients are still there
	// (EventMeasured).
	Mark func(event string)
}

// WithFrame is a load with frames of another length than 1514. As many are in a write and in flight as are about the same number
// of bytes, but not more and not fewer than a few.
func (l Load) WithFrame(length int) Load {
	l.Frame = length
	if l.Batch > 1 {
		l.Batch = min(max(BatchFrames*usualFrame/length, 2), BatchFrames)
	}
	l.Window = min(max(usualWindow*usualFrame/length, 8), usualWindow)
	return l
}

// How clients are connected: a letter each in Load.Kinds, the last of which stands for all that follow. csrc/load.h has the
// same.
const (
	Stream      = "s" // SOCKET
	Passed      = "d" // a datagram socket from SOCKET.d/attach
	Connected   = "c" // a path of its own, connected to SOCKET.d/dgram/sock
	Unconnected = "u" // a path of its own, not connected
)

// A Result is what the load generator reports of one measurement.
type Result struct {
	WallNS     int64 `json:"wall_ns"`
	RelayCPUNS int64 `json:"relay_cpu_ns"`
	Received   int64 `json:"received"`
	Corrupt    int64 `json:"corrupt"` // damaged, mis-sized, repeated or out of order
	Lost       int64 `json:"lost"`
	RoundTrips int64 `json:"round_trips"`
	RTTP50NS   int64 `json:"rtt_p50_ns"`
	RTTP99NS   int64 `json:"rtt_p99_ns"`

	Slots []Slot `json:"-"` // as many as the Load asked for

	// Of the relay, read from outside.
	Switches     uint64 `json:"-"` // of context, between the begin and the end
	AnonymousKiB uint64 `json:"-"` // memory at the end, while the clients are still there
	ResidentKiB  uint64 `json:"-"`
}

// A Slot is a part of a measurement.
type Slot struct {
	WallNS     int64 `json:"wall_ns"`
	RelayCPUNS int64 `json:"relay_cpu_ns"`
	Received   int64 `json:"received"`
}

// Rate is the frames per second that arrived.
func (r Result) Rate() float64 { return float64(r.Received) * 1e9 / float64(r.WallNS) }

// CPU is the relay's CPU time per frame or round trip in ns, 0 when there was none.
func (r Result) CPU() float64 {
	n := max(r.Received, r.RoundTrips)
	if n == 0 {
		return 0
	}
	return float64(r.RelayCPUNS) / float64(n)
}

// loadArgs are what csrc/load.c wants, in its order.
func (r *Rig) loadArgs(to *Relay, l Load) []string {
	args := []string{to.Socket, cmp.Or(l.Kinds, Stream)}
	flag := map[bool]int{true: 1}
	for _, n := range []int{
		to.PID(), l.Clients, l.Pairs, max(l.Batch, 1), cmp.Or(l.Frame, usualFrame), max(cmp.Or(l.Window, usualWindow), 0), l.Frames,
		int(cmp.Or(l.Warm, r.opt.Warm).Milliseconds()), int(cmp.Or(l.Time, r.opt.Time).Milliseconds()), max(l.Slots, 1), flag[l.Echo], flag[l.Fan],
	} {
		args = append(args, strconv.Itoa(n))
	}
	return args
}

// The moments of a measurement that Load.Mark is told of.
const (
	EventBegin    = "begin"
	EventMeasured = "measured" // over, and the clients are still there
	eventSlot     = "slot"     // one is over, with its figures
	eventEnd      = "end"      // with the figures
)

// Drive runs l against a relay. Damaged, repeated or reordered frames, a client that the relay hung up on, and the relay's end
// are errors; lost frames are part of the result.
func (r *Rig) Drive(ctx context.Context, to *Relay, l Load) (Result, error) {
	cmd := exec.CommandContext(ctx, r.loadgen, r.loadArgs(to, l)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, outErr := cmd.StdoutPipe()
	in, inErr := cmd.StdinPipe()
	if err := errors.Join(outErr, inErr); err != nil {
		return Result{}, fmt.Errorf("prepare load generator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("start load generator: %w", err)
	}
	res, err := to.follow(out, in, l.Mark)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if waitErr := cmd.Wait(); waitErr != nil && err == nil {
		err = fmt.Errorf("run load generator: %w: %s%s", waitErr, strings.TrimSpace(complaints.String()), to.Diagnosis())
	}
	if err == nil {
		err = to.Alive()
	}
	switch {
	case err != nil:
		return Result{}, err
	case res.WallNS == 0:
		return Result{}, errors.New("run load generator: it gave no result")
	case res.Corrupt > 0:
		return Result{}, fmt.Errorf("%d of %d frames arrived damaged or out of order", res.Corrupt, res.Received)
	}
	return res, nil
}

// follow reads what the load generator tells, looks at the relay's process at the moments it tells of, and lets it go on. The
// result is zero when it ended without one.
func (r *Relay) follow(out io.Reader, in io.Writer, mark func(event string)) (res Result, err error) {
	var seen Result // of the process
	var begin, end switches
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var event struct {
			Event string `json:"event"`
			Result
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return res, fmt.Errorf("read load generator's %q: %w", lines.Text(), err)
		}
		switch event.Event {
		case eventEnd:
			res = event.Result
			res.Slots, res.Switches, res.AnonymousKiB, res.ResidentKiB = seen.Slots, end.since(begin), seen.AnonymousKiB, seen.ResidentKiB
			continue
		case eventSlot:
			seen.Slots = append(seen.Slots, Slot{event.WallNS, event.RelayCPUNS, event.Received})
			continue
		case EventBegin:
			begin, err = switchesOf(r.PID())
		case EventMeasured:
			end, err = switchesOf(r.PID())
			u, memErr := lab.UseOf(r.PID())
			seen.AnonymousKiB, seen.ResidentKiB, err = uint64(u.Anon), uint64(u.RSS), errors.Join(err, memErr)
		}
		if err != nil {
			return res, errors.Join(err, r.Alive())
		}
		if mark != nil {
			mark(event.Event)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			return res, nil // it has ended, and tells itself why
		}
	}
	return res, nil
}

// Measure starts a relay of the given kind, drives it with l, and stops it.
func (r *Rig) Measure(ctx context.Context, kind string, l Load) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	to, err := r.Start(kind)
	if err != nil {
		return Result{}, err
	}
	res, err := r.Drive(ctx, to, l)
	if stopErr := to.Stop(); err == nil {
		err = stopErr
	}
	return res, err
}
