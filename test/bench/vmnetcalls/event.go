// SPDX-License-Identifier: Apache-2.0

//go:build linux && vmnetsim

package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// A player is one side of the ping-pong.
type player struct {
	ifc    api.Interface
	mem    ends
	ball   frame.Batch
	quit   *atomic.Bool
	events *atomic.Uint64
}

// play answers at each event: it reads until nothing is left, and writes one frame for each.
func (p *player) play() error {
	for {
		p.ifc.Wait()
		if p.quit.Load() {
			return nil
		}
		p.events.Add(1)
		for {
			n, err := p.mem.read(p.ifc)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			for range n {
				if err := p.mem.write(p.ifc, p.ball); err != nil {
					return err
				}
			}
		}
	}
}

// pingPong keeps one small frame under way between the interfaces and counts the events.
func (p *pair) pingPong() error {
	var events atomic.Uint64
	var playing sync.WaitGroup
	var quit atomic.Bool
	players := []*player{
		{ifc: p.from, ball: frames(1, shortLen, 1, 2)},
		{ifc: p.to, ball: frames(1, shortLen, 2, 1)},
	}
	errs := make(chan error, len(players))
	for _, s := range players {
		var err error
		if s.mem, err = p.ends(p.slots()); err != nil {
			return err
		}
		for n := -1; n != 0; { // what the cases before have left
			if n, err = s.mem.read(s.ifc); err != nil {
				return err
			}
		}
		s.quit, s.events = &quit, &events
		if err := s.ifc.Notify(true); err != nil {
			return err
		}
		playing.Go(func() { errs <- s.play() })
	}
	kick, err := p.ends(1)
	if err != nil {
		return err
	}
	if err := kick.write(p.from, players[0].ball); err != nil {
		return fmt.Errorf("write the first frame: %w", err)
	}
	r := p.watch(&events)
	quit.Store(true)
	for _, s := range players {
		s.ifc.Wake()
	}
	playing.Wait()
	return errors.Join(<-errs, <-errs, p.out.Encode(r))
}

// watch measures the ping-pong.
func (p *pair) watch(events *atomic.Uint64) result {
	count, allocated, begin := events.Load(), mallocs(), cpuTime()
	time.Sleep(p.length)
	for deadline := time.Now().Add(patience); events.Load() == count && time.Now().Before(deadline); { // a busy machine
		time.Sleep(p.length)
	}
	used := cpuTime() - begin
	count = events.Load() - count
	return result{
		Op: "event", PerCall: 1, Len: shortLen, Calls: count, Packets: count, CPU: used, Mallocs: mallocs() - allocated,
	}
}
