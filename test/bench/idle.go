// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The rows about idle clients with interfaces of their own.
const keyIdle = "idle16"

const (
	idlePorts     = 16
	idleTime      = 10 * time.Second
	quickIdleTime = time.Second

	// Nothing should happen at all; one client that polled ten times a second would be above both limits.
	idleCPULimit  = 0.5 // ms of CPU time per second
	idleWakeLimit = 5   // context switches per second
)

// An activity is what a process has done up to a moment.
type activity struct {
	cpu      time.Duration
	switches int64 // context switches of its threads
}

// idle measures what clients with interfaces of their own cost while nothing is sent. The network is a bridged one, for
// which the daemon simulates no host: that host looks around 20 times a second and is no part of a Mac.
func (b *bench) idle(ctx context.Context) (vs []verdict, err error) {
	r, err := b.start(relayBridged)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.waitSocket(ctx); err != nil {
		return nil, err
	}
	leave, err := r.join(ctx, strings.Repeat(kindStream, idlePorts))
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := r.waitInterfaces(ctx, 1+idlePorts); err != nil {
		return nil, err
	}
	time.Sleep(2 * restTime) // until what was needed for the start has ended
	length := idleTime
	if b.p.Quick {
		length = quickIdleTime
	}
	before, beforeErr := r.activity()
	time.Sleep(length)
	after, afterErr := r.activity()
	return idleVerdicts(before, after, length), errors.Join(beforeErr, afterErr)
}

// waitInterfaces returns once the daemon has so many interfaces, one of them its own.
func (r *relay) waitInterfaces(ctx context.Context, n int64) error {
	c, err := vmnetsim.Open(r.control)
	if err != nil {
		return fmt.Errorf("look into the simulator: %w", err)
	}
	defer c.Close()
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if c.Gauges().Interfaces == n {
			return r.alive()
		}
	}
	return fmt.Errorf("the daemon has %d interfaces, want %d%s", c.Gauges().Interfaces, n, r.diagnosis())
}

// activity adds up what the threads have done that there are.
func (r *relay) activity() (a activity, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", r.pid()))
	if err != nil || len(threads) == 0 {
		return a, errors.Join(errors.New("find the daemon's threads, which needs Linux"), err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(thread, "schedstat"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
		}
		var ran int64
		if _, scanErr := fmt.Sscan(string(stat), &ran); err != nil || scanErr != nil {
			return a, fmt.Errorf("read a thread's CPU time: %w", errors.Join(err, scanErr))
		}
		n, err := switches(thread)
		if err != nil {
			return a, err
		}
		a.cpu += time.Duration(ran)
		a.switches += n
	}
	return a, nil
}

// switches counts a thread's context switches of both kinds.
func switches(thread string) (sum int64, err error) {
	status, err := os.ReadFile(filepath.Join(thread, "status"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read a thread's context switches: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		if !strings.HasSuffix(key, "ctxt_switches") {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read a thread's context switches: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// idleVerdicts are what happened in a time in which nothing should.
func idleVerdicts(before, after activity, length time.Duration) []verdict {
	figure := func(what, unit string, n float64, limit float64) verdict {
		return verdict{
			Key: keyIdle, Text: fmt.Sprintf("%d idle clients on vmnet: %s", idlePorts, what), Unit: unit,
			Subject: n / length.Seconds(), AtMost: true, Target: limit,
		}.decide()
	}
	return []verdict{
		figure("CPU time", unitMSPerS, float64(after.cpu-before.cpu)/float64(time.Millisecond), idleCPULimit),
		figure("context switches", unitPerS, float64(after.switches-before.switches), idleWakeLimit),
	}
}
