// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// interfacesTime is how long interfaces are started; the rest of the step is for closing them.
const interfacesTime = 15 * time.Second

// listener is a sink that notes whether a frame of a probe came.
type listener struct {
	want []byte
	once sync.Once
	came chan struct{}
}

// Deliver implements frame.Sink.
func (l *listener) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		if bytes.Equal(it.Frame(), l.want) {
			l.once.Do(func() { close(l.came) })
		}
	}
}

// MaxFrame implements frame.Sink.
func (l *listener) MaxFrame() int { return frame.MaxLen }

// interfaces starts as many ports as it may, and checks that a broadcast reaches all of them.
func (r *run) interfaces(ctx context.Context) result {
	var probe []byte
	if a := r.guests[0]; !r.opts.Isolated && a.Addr().IsValid() {
		probe = frames(a, fakeguest.Broadcast, broadcastIP, 1, 100)[0]
	}
	var ports []vnet.Port
	var sinks []*listener
	var took []time.Duration
	var refused error
	all := len(r.guests)
	for end := time.Now().Add(interfacesTime); all < r.opts.Interfaces && time.Now().Before(end) && ctx.Err() == nil; all++ {
		sink := &listener{want: probe, came: make(chan struct{})}
		start := time.Now()
		id := "selftest-" + strconv.Itoa(all+1)
		p, err := r.network.Attach(ctx, vnet.PortOptions{Name: id, ID: id}, sink)
		if err != nil {
			refused = err
			break
		}
		took = append(took, time.Since(start))
		ports, sinks = append(ports, p), append(sinks, sink)
	}
	sharing, first := r.sharing()
	at := 0 // how many ports there were before the first one that was refused, or has no interface of its own
	if refused != nil {
		first, at = refused, all
	} else if sharing > 0 {
		at = all - sharing
	}
	deaf := r.deaf(ctx, sinks, probe)
	closing := time.Now()
	closed := closeAll(ports)
	values := Facts{
		{"started", all},
		{"own", all - sharing},
		{"first_failure", strings.TrimPrefix(because(first), ": ")},
		{"first_failure_at", at},
		{"start_median_ms", millis(median(took))},
		{"start_max_ms", millis(slices.Max(append(took, 0)))},
		{"close_ms", millis(time.Since(closing))},
	}
	switch {
	case refused != nil:
		return fail("the network refuses port %d: %v", all+1, refused).with(values)
	case len(deaf) > 0:
		return fail("a broadcast does not reach port %s of %d", strings.Join(deaf, ", "), all).with(values)
	case closed != nil:
		return fail("close a port: %v", closed).with(values)
	}
	s := fmt.Sprintf("%d ports, %d with an interface of their own, median start %s", all, all-sharing, short(median(took)))
	if sharing > 0 && !r.opts.SharingAsked {
		s += fmt.Sprintf("; from port %d on shared%s", at+1, because(first))
	}
	return pass(values, "%s", s)
}

// deaf broadcasts a frame and returns which ports did not get it.
func (r *run) deaf(ctx context.Context, sinks []*listener, probe []byte) (ports []string) {
	if probe == nil || r.guests[0].Send(probe) != nil {
		return nil
	}
	answer, cancel := context.WithTimeout(ctx, r.opts.Answer)
	defer cancel()
	for i, s := range sinks {
		select {
		case <-s.came:
			continue
		case <-answer.Done():
		}
		select {
		case <-s.came:
		default:
			ports = append(ports, strconv.Itoa(len(r.guests)+i+1))
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return ports
}

// closeAll closes ports, a few at once as a daemon does, and returns an error of one of them.
func closeAll(ports []vnet.Port) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(ports))
	few := make(chan struct{}, 4)
	for _, p := range ports {
		few <- struct{}{}
		wg.Go(func() {
			if err := p.Close(); err != nil {
				failed <- err
			}
			<-few
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}
