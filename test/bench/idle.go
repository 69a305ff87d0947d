// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The rows about idle clients with interfaces of their own.
const keyIdle = "idle16"

const (
	idlePorts     = 16
	waitTime      = 10 * time.Second // for the interfaces
	idleTime      = 10 * time.Second
	quickIdleTime = time.Second

	// Nothing should happen at all; one client that polled ten times a second would be above both limits.
	idleCPULimit  = 0.5 // ms of CPU time per second
	idleWakeLimit = 5   // context switches per second
)

// idle measures what clients with interfaces of their own cost while nothing is sent. The network is a bridged one, for
// which the daemon simulates no host: that host looks around 20 times a second and is no part of a Mac.
func (b *bench) idle(ctx context.Context) (vs []verdict, err error) {
	r, err := b.Start(rig.DaemonBridged)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if err := r.WaitSocket(ctx); err != nil {
		return nil, err
	}
	leave, err := r.Join(ctx, strings.Repeat(rig.Stream, idlePorts))
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := waitInterfaces(ctx, r, 1+idlePorts); err != nil {
		return nil, err
	}
	time.Sleep(2 * restTime) // until what was needed for the start has ended
	length := idleTime
	if b.p.Quick {
		length = quickIdleTime
	}
	before, beforeErr := r.Activity()
	time.Sleep(length)
	after, afterErr := r.Activity()
	return idleVerdicts(after.Since(before)), errors.Join(beforeErr, afterErr)
}

// waitInterfaces returns once the daemon has so many interfaces, one of them its own.
func waitInterfaces(ctx context.Context, r *rig.Relay, n int64) error {
	c, err := vmnetsim.Open(r.Control)
	if err != nil {
		return fmt.Errorf("look into the simulator: %w", err)
	}
	defer c.Close()
	for deadline := time.Now().Add(waitTime); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if c.Gauges().Interfaces == n {
			return r.Alive()
		}
	}
	return fmt.Errorf("the daemon has %d interfaces, want %d%s", c.Gauges().Interfaces, n, r.Diagnosis())
}

// idleVerdicts are what happened in a time in which nothing should.
func idleVerdicts(w rig.Work) []verdict {
	figure := func(what, unit string, n float64, limit float64) verdict {
		return verdict{
			Key: keyIdle, Text: fmt.Sprintf("%d idle clients on vmnet: %s", idlePorts, what), Unit: unit,
			Subject: n / w.Length.Seconds(), AtMost: true, Target: limit,
		}.decide()
	}
	return []verdict{
		figure("CPU time", unitMSPerS, float64(w.CPU)/float64(time.Millisecond), idleCPULimit),
		figure("context switches", unitPerS, float64(w.Voluntary+w.Involuntary), idleWakeLimit),
	}
}
