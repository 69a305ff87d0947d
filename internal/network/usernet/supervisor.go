// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"fmt"
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

	now                  atomic.Pointer[life] // what clients' readers may write to; nil while there is none
	unwanted, full, lost atomic.Uint64        // frames to the gateway that were dropped

	stop    context.CancelFunc
	stopped context.Context
	ended   chan struct{} // run has returned
	goOn    func()        // starts run, once

	mu sync.Mutex
	record
	life     *life // nil while there is none
	state    string
	err      error         // why the last one ended
	answered chan struct{} // closed at the next answer
	leaving  bool          // by Detach: nothing more is sent
}

func (s *supervisor) init(n *Network) {
	s.net, s.mac, s.queue = n, [6]byte(n.plan.MAC), newQueue()
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.ended, s.answered, s.state = make(chan struct{}), make(chan struct{}), starting
}

// MaxFrame implements frame.Sink.
func (s *supervisor) MaxFrame() int { return s.net.plan.MaxFrame() }

// Deliver implements frame.Sink. The bridge calls DeliverFrom.
func (s *supervisor) Deliver(frame.Batch) {}

// DeliverFrom implements bridge.sourceSink.
func (s *supervisor) DeliverFrom(source any, b frame.Batch) {
	session := source.(uint64)
	b.Runs(s.wants, func(run frame.Batch) {
		if l := s.now.Load(); l == nil || !l.deliver(session, run) {
			s.full.Add(uint64(s.queue.put(session, run)))
		}
	})
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
	s.mu.Lock()
	leaving := s.leaving
	s.mu.Unlock()
	if !leaving {
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
		} else {
			s.have(l)
		}
	}
	s.goOn = sync.OnceFunc(func() {
		go func() {
			defer close(s.ended)
			s.run(l)
		}()
	})
	if l == nil {
		s.goOn()
	}
}

// run serves l and then starts one gateway after the other until stop.
func (s *supervisor) run(l *life) {
	delay := time.Duration(0)
	for !s.isOver() {
		began, err := time.Now(), error(nil)
		if l == nil {
			if l, err = s.spawn(); err == nil {
				s.have(l)
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

// have makes l the gateway of now.
func (s *supervisor) have(l *life) {
	s.mu.Lock()
	s.life = l
	s.now.Store(l)
	s.mu.Unlock()
	if s.isOver() { // close or Detach came before there was anything to end
		l.end()
	}
}

// isOver tells whether no gateway is to be started any more.
func (s *supervisor) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving || s.stopped.Err() != nil
}

// note tells of the end of a gateway.
func (s *supervisor) note(err error, delay time.Duration) {
	s.mu.Lock()
	s.now.Store(nil)
	s.Counters = add(s.Counters, s.Last)
	s.life, s.Last, s.state, s.err = nil, gateway.Answer{}, restarting, err
	s.Restarts++
	close(s.answered)
	s.answered = make(chan struct{})
	s.mu.Unlock()
	s.net.opts.Log.Error("the gateway of the embedded network ended and is started again; its connections are lost",
		"reason", err, "delay", delay.String())
}

// close ends the gateway for good and waits for it.
func (s *supervisor) close() {
	s.stop()
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l != nil {
		l.end()
	}
	s.goOn()
	<-s.ended
	if l != nil {
		_, _ = l.proc.Wait() // of one that was not resumed
	}
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

// answer takes the counters that a gateway tells. They are its own word.
func (s *supervisor) answer(l *life, a gateway.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Ask <= s.Last.Ask || a.Ask > s.Asked {
		return fmt.Errorf("an answer to question %d, of %d", a.Ask, s.Asked)
	}
	s.Last = a
	l.unanswered = 0
	close(s.answered)
	s.answered = make(chan struct{})
	return nil
}

// askTime is how long the status waits for a gateway.
const askTime = 100 * time.Millisecond

// ask gets the counters of now, or the last ones of a gateway that does not answer.
func (s *supervisor) ask() (hello gateway.Hello, now gateway.Answer) {
	ctx, cancel := context.WithTimeout(s.stopped, askTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && s.state == running {
		for number := s.question(); s.Last.Ask < number && s.life != nil && ctx.Err() == nil; {
			answered := s.answered
			s.mu.Unlock()
			select {
			case <-answered:
			case <-ctx.Done():
			}
			s.mu.Lock()
		}
	}
	return s.Hello, add(s.Last, s.Counters)
}

// question sends one and returns its number. The caller holds mu.
func (s *supervisor) question() uint64 {
	s.Asked++
	s.queue.message(0, gateway.KindAsk, s.Asked)
	return s.Asked
}
