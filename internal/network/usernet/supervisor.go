// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

const (
	// Delays before a gateway is started again that has ended by itself: the first one comes at once. A guest that can provoke an
	// end shall not spend the host's time on it.
	minDelay, maxDelay = 100 * time.Millisecond, 30 * time.Second
	// tickTime is how often a gateway is asked whether it works; one that does not answer for hangTicks of them is replaced.
	tickTime  = 3 * time.Second
	hangTicks = 2
)

// States of the gateway in the status.
const (
	starting   = "starting"
	running    = "running"
	restarting = "restarting"
)

// A supervisor is the gateway as the network sees it: a sink of the bridge, whose process is replaced when that is necessary.
//
//	starting --hello--> running --end, hang, or nonsense--> restarting --delay--> starting
type supervisor struct {
	net   *Network
	mac   [6]byte
	queue *queue

	life                 atomic.Pointer[life] // nil while there is none
	unwanted, full, lost atomic.Uint64        // frames to the gateway that were dropped

	stop    context.CancelFunc // no gateway is started any more, and this one is left or ended
	stopped context.Context
	ended   chan struct{} // run has returned
	goOn    func()        // starts run, once

	mu sync.Mutex
	record
	state string
	err   error // why the last one ended
}

func (s *supervisor) init(n *Network) {
	s.net, s.mac, s.queue = n, [6]byte(n.plan.MAC), newQueue()
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.ended, s.state = make(chan struct{}), starting
}

// MaxFrame implements frame.Sink.
func (s *supervisor) MaxFrame() int { return s.net.plan.MaxFrame() }

// Deliver implements frame.Sink. The bridge calls DeliverFrom.
func (s *supervisor) Deliver(frame.Batch) {}

// DeliverFrom implements bridge.sourceSink.
func (s *supervisor) DeliverFrom(source any, b frame.Batch) {
	session := source.(uint64)
	full := 0
	b.Runs(s.wants, func(run frame.Batch) {
		if l := s.life.Load(); l != nil {
			run = l.deliver(session, run)
		}
		if run.Len() > 0 {
			full += s.queue.put(session, run)
		}
	})
	if full > 0 {
		s.full.Add(uint64(full))
		time.Sleep(time.Duration(full) * fullPause) // of this client alone
	}
}

// wants counts the frames in which the gateway has no interest.
func (s *supervisor) wants(f []byte) bool {
	wanted := gateway.Wants(s.mac, f)
	if !wanted {
		s.unwanted.Add(1)
	}
	return wanted
}

// gone tells the gateway that a session has ended.
func (s *supervisor) gone(session uint64) {
	if !s.isOver() {
		s.queue.message(session, gateway.KindGone, session)
	}
}

// start takes over a gateway that runs already, which waits for Resume, or starts one.
func (s *supervisor) start(i *Inherited) {
	var l *life
	if i != nil {
		var err error
		if l, err = s.adopt(i); err != nil {
			s.note(err, 0)
		}
	}
	s.life.Store(l)
	s.goOn = sync.OnceFunc(func() { go s.run(l) })
	if l == nil {
		s.goOn()
	}
}

// run serves l and then starts one gateway after the other until stop.
func (s *supervisor) run(l *life) {
	defer close(s.ended)
	var delay time.Duration
	for !s.isOver() {
		began, err := time.Now(), error(nil)
		if l == nil {
			l, err = s.spawn()
			s.life.Store(l)
			if err == nil && s.isOver() { // close had nothing to end
				l.end()
			}
		}
		if err == nil {
			err = l.run()
		}
		l = nil
		if s.isOver() {
			return
		}
		if time.Since(began) > maxDelay {
			delay = 0
		}
		s.note(err, delay)
		select {
		case <-time.After(delay):
		case <-s.stopped.Done():
		}
		delay = min(max(2*delay, s.net.opts.tune.minDelay), maxDelay)
	}
}

// isOver tells whether no gateway is to be started any more.
func (s *supervisor) isOver() bool { return s.stopped.Err() != nil }

// note tells of the end of a gateway.
func (s *supervisor) note(err error, delay time.Duration) {
	s.life.Store(nil)
	s.mu.Lock()
	s.Counters = add(s.Counters, s.Last)
	s.Last, s.state, s.err = gateway.Answer{}, restarting, err
	s.Restarts++
	s.mu.Unlock()
	s.net.opts.Log.Error("the gateway of the embedded network ended and is started again; its connections are lost",
		"reason", err, "delay", delay.String())
}

// close ends the gateway for good and waits for it.
func (s *supervisor) close() {
	s.stop()
	l := s.life.Load()
	if l != nil {
		l.end()
	}
	s.goOn()
	<-s.ended
	if l != nil {
		_, _ = l.proc.Wait() // of one that was not resumed
	}
}

// ask asks the gateway for its counters.
func (s *supervisor) ask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Asked++
	s.queue.message(0, gateway.KindAsk, s.Asked)
}

// add sums up the counters of two lives.
func add(a, b gateway.Answer) gateway.Answer {
	a.Stats.Unwanted += b.Stats.Unwanted
	a.Stats.Malformed += b.Stats.Malformed
	a.Stats.OutFull += b.Stats.OutFull
	a.Malformed += b.Malformed
	a.Foreign += b.Foreign
	a.PortFull += b.PortFull
	a.PoolFull += b.PoolFull
	return a
}
