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
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

const (
	idlePorts     = 16
	waitTime      = time.Minute // for the interfaces
	idleTime      = 10 * time.Second
	quickIdleTime = time.Second

	// On vmnet nothing should happen at all; one client that polled ten times a second would be above both limits.
	idleCPULimit  = 0.5 // ms of CPU time per second
	idleWakeLimit = 5   // context switches per second
)

// idleDatagrams are clients with datagram sockets of all kinds. Nothing tells a daemon that the other end of such a socket has
// gone, so it looks every few seconds, and there is no target for that.
var idleDatagrams = strings.Repeat(rig.Passed, idlePorts/2) + strings.Repeat(rig.Unconnected+rig.Connected, idlePorts/4)

// idle measures what clients cost on the embedded network while nothing is sent. By the stream socket it should be nothing at all.
func (b *bench) idle(ctx context.Context) ([]verdict, error) {
	streams, err := b.rest(ctx, rounds.Daemon, strings.Repeat(rig.Stream, idlePorts), nil)
	if err != nil {
		return nil, err
	}
	datagrams, err := b.rest(ctx, rounds.Daemon, idleDatagrams, nil)
	if err != nil {
		return nil, err
	}
	all := idleVerdicts(keyIdle, fmt.Sprintf("%d idle clients on usernet", idlePorts), streams, 0, 0)
	for _, v := range idleVerdicts(keyIdle, "the same by datagram sockets", datagrams, 0, 0) {
		v.Target, v.AtMost = 0, false
		all = append(all, v.decide())
	}
	return all, nil
}

// idleVmnet measures what clients with interfaces of their own cost while nothing is sent. The network is a bridged one, for
// which the daemon simulates no host: that host looks around 20 times a second and is no part of a Mac.
func (b *bench) idleVmnet(ctx context.Context) ([]verdict, error) {
	w, err := b.rest(ctx, rig.DaemonBridged, strings.Repeat(rig.Stream, idlePorts), func(r *rig.Relay) error {
		return waitInterfaces(ctx, r, 1+idlePorts)
	})
	if err != nil {
		return nil, err
	}
	return idleVerdicts(keyIdleVmnet, fmt.Sprintf("%d idle clients on vmnet", idlePorts), w, idleCPULimit, idleWakeLimit), nil
}

// rest is what a relay does with idle clients of these kinds, once joined has returned.
func (b *bench) rest(ctx context.Context, kind, clients string, joined func(*rig.Relay) error) (w rig.Work, err error) {
	r, err := b.Start(kind)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if err := r.WaitSocket(ctx); err != nil {
		return w, err
	}
	leave, err := r.Join(ctx, clients)
	if err != nil {
		return w, err
	}
	defer leave()
	if joined != nil {
		if err := joined(r); err != nil {
			return w, err
		}
	}
	length := idleTime
	if b.p.Quick {
		length = quickIdleTime
	}
	time.Sleep(2*restTime + b.p.Settle) // until what was needed for the start has ended
	before, beforeErr := r.Activity()
	time.Sleep(length)
	after, afterErr := r.Activity()
	kib, memErr := r.Anonymous()
	w = after.Since(before)
	relay, by := kind, transport(rig.Load{Kinds: clients, Pairs: len(clients) / 2})
	if kind == rig.DaemonBridged {
		relay = rounds.DaemonVmnet
	}
	b.more = append(b.more, rounds.Round{
		Series: seriesIdle, Setup: kind + " idle " + by, Relay: relay, Transport: by,
		Clients: len(clients), Seconds: w.Length.Seconds(), CPUSeconds: w.CPU.Seconds(), Voluntary: w.Voluntary, Involuntary: w.Involuntary,
		MemoryKiB: kib,
	})
	return w, errors.Join(beforeErr, afterErr, memErr)
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

// idleVerdicts are what happened in a time in which nothing should, with limits in ms of CPU time and context switches per
// second.
func idleVerdicts(key, text string, w rig.Work, cpuLimit, wakeLimit float64) []verdict {
	figure := func(what, unit string, n float64, limit float64) verdict {
		return verdict{
			Key: key, Text: fmt.Sprintf("%s: %s", text, what), Unit: unit, Subject: n / w.Length.Seconds(), AtMost: true, Target: limit,
		}.decide()
	}
	return []verdict{
		figure("CPU time", unitMSPerS, float64(w.CPU)/float64(time.Millisecond), cpuLimit),
		figure("context switches", unitPerS, float64(w.Voluntary+w.Involuntary), wakeLimit),
	}
}
