// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// What the last of a load's clients do while the one before them sends to them all the time.
const (
	victimReads = "reads"
	victimDeaf  = "deaf"
)

// A load is what the clients of one measurement do. Clients 0-1, 2-3, ... are sender and receiver of the pairs, the others
// connect, say who they are, and read whatever comes.
type load struct {
	Clients int
	Pairs   int
	Batch   int    // frames per write of a sender; 1: a writev per frame, as QEMU does
	Kinds   string // how each client is connected, see the constants; empty: all by the stream socket
	Victim  string // victimReads, victimDeaf, or empty for none
	Victims int    // how many of the last clients; 0 = 1
	Echo    bool   // a ping-pong of 64 bytes instead of a windowed flow
	Frames  int    // measure until as many have arrived, if that takes longer
	Time    time.Duration
	Warm    time.Duration // 0: as the command line says
}

// How clients are connected: a letter each in load.Kinds, the last of which stands for all that follow. csrc/load.h has the
// same.
const (
	kindStream      = "s" // SOCKET
	kindPassed      = "d" // a datagram socket from SOCKET.d/attach
	kindConnected   = "c" // a path of its own, connected to SOCKET.d/dgram/sock
	kindUnconnected = "u" // a path of its own, not connected
)

// A result is what the load generator reports of one measurement.
type result struct {
	WallNS     int64 `json:"wall_ns"`
	RelayCPUNS int64 `json:"relay_cpu_ns"`
	Sent       int64 `json:"sent"`
	Received   int64 `json:"received"`
	Corrupt    int64 `json:"corrupt"` // damaged, mis-sized, repeated or out of order
	Lost       int64 `json:"lost"`
	Stalls     int64 `json:"stalls"` // windows that were given up because no ack came
	RoundTrips int64 `json:"round_trips"`
	RTTP50NS   int64 `json:"rtt_p50_ns"`
	RTTP99NS   int64 `json:"rtt_p99_ns"`

	Pairs []int64 `json:"pairs"` // received by each pair
}

// rate is the frames per second that arrived, for a pair above 0 those of the pair that has this number, from 1 on.
func (r result) rate(pair int) float64 {
	n := r.Received
	if pair > 0 {
		n = r.Pairs[pair-1]
	}
	return float64(n) * 1e9 / float64(r.WallNS)
}

// cpu is the relay's CPU time per frame or round trip in ns, 0 when there was none.
func (r result) cpu() float64 {
	n := max(r.Received, r.RoundTrips)
	if n == 0 {
		return 0
	}
	return float64(r.RelayCPUNS) / float64(n)
}

func (b *bench) loadArgs(r *relay, l load) []string {
	length, warm := cmp.Or(l.Time, b.p.Time), cmp.Or(l.Warm, b.p.Warm)
	args := []string{
		"--socket", r.socket, "--relay", strconv.Itoa(r.pid()),
		"--clients", strconv.Itoa(l.Clients), "--pairs", strconv.Itoa(l.Pairs),
		"--frame-len", strconv.Itoa(b.p.Frame), "--window", strconv.Itoa(b.p.Window), "--batch", strconv.Itoa(l.Batch),
		"--kinds", cmp.Or(l.Kinds, kindStream), "--victim", l.Victim, "--victims", strconv.Itoa(max(l.Victims, 1)),
		"--frames", strconv.Itoa(l.Frames), "--warm-ms", strconv.FormatInt(warm.Milliseconds(), 10),
		"--time-ms", strconv.FormatInt(length.Milliseconds(), 10),
	}
	if l.Echo {
		args = append(args, "--echo")
	}
	return args
}

// The moments of a measurement that drive tells of.
const (
	eventBegin    = "begin"
	eventMeasured = "measured" // over, and the clients are still there
	eventEnd      = "end"      // with the figures
)

// drive runs l against r. mark, if not nil, is called with eventBegin and eventMeasured.
func (b *bench) drive(ctx context.Context, r *relay, l load, mark func(event string)) (result, error) {
	cmd := exec.CommandContext(ctx, b.loadgen, b.loadArgs(r, l)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, fmt.Errorf("start load generator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return result{}, fmt.Errorf("start load generator: %w", err)
	}
	var res result
	ended := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var event struct {
			Event string `json:"event"`
			result
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return result{}, errors.Join(fmt.Errorf("read load generator's %q: %w", lines.Text(), err), cmd.Wait())
		}
		if event.Event == eventEnd {
			res, ended = event.result, true
		} else if mark != nil {
			mark(event.Event)
		}
	}
	if err := cmd.Wait(); err != nil {
		return result{}, fmt.Errorf("run load generator: %w: %s%s", err, strings.TrimSpace(complaints.String()), r.diagnosis())
	}
	if !ended {
		return result{}, errors.New("run load generator: it gave no result")
	}
	if err := r.alive(); err != nil {
		return result{}, err
	}
	if res.Corrupt > 0 {
		return result{}, fmt.Errorf("%d of %d frames arrived damaged or out of order", res.Corrupt, res.Received)
	}
	return res, nil
}
