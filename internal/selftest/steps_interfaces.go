// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
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

// count is what the step interfaces found.
type count struct {
	ports   []vnet.Port
	sinks   []*listener
	took    []time.Duration
	refused error

	sharing int   // ports without an interface of their own
	first   error // why the first one had none, or was refused
	at      int   // how many ports there were before it
}

// interfaces starts as many ports as it may, and checks that a broadcast reaches all of them.
func (r *run) interfaces(ctx context.Context) result {
	probe := []byte(nil)
	if a := r.guests[0]; !r.opts.Isolated && a.Addr().IsValid() {
		probe = frames(a, fakeguest.Broadcast, broadcastIP, 1, 100)[0]
	}
	c := r.start(ctx, probe)
	deaf := r.reach(ctx, c, probe)
	closing := time.Now()
	closed := closeAll(c.ports)
	all := len(r.guests) + len(c.ports)
	values := Facts{
		{"started", all},
		{"own", all - c.sharing},
		{"first_failure", text(c.first)},
		{"first_failure_at", c.at},
		{"start_median_ms", millis(median(c.took))},
		{"start_max_ms", millis(slices.Max(append(c.took, 0)))},
		{"close_ms", millis(time.Since(closing))},
	}
	switch {
	case c.refused != nil:
		return fail("the network refuses port %d: %v", all+1, c.refused).with(values)
	case len(deaf) > 0:
		return fail("a broadcast does not reach port %s of %d", list(deaf), all).with(values)
	case closed != nil:
		return fail("%v", closed).with(values)
	}
	s := fmt.Sprintf("%d ports, %d with an interface of their own, median start %s", all, all-c.sharing, short(median(c.took)))
	if c.sharing > 0 && !r.opts.SharingAsked {
		s += fmt.Sprintf("; from port %d on shared%s", c.at+1, because(c.first))
	}
	return pass(values, "%s", s)
}

// start attaches ports until there are enough, the network refuses one or the time is over.
func (r *run) start(ctx context.Context, probe []byte) *count {
	c := &count{}
	note := func(ports int) {
		was := c.sharing
		n, why := r.sharing()
		if c.sharing = n; was == 0 && n > 0 {
			c.first, c.at = why, ports-n
		}
	}
	note(len(r.guests))
	end := time.Now().Add(interfacesTime)
	for n := len(r.guests); n < r.opts.Interfaces && time.Now().Before(end) && ctx.Err() == nil; n++ {
		sink := &listener{want: probe, came: make(chan struct{})}
		start := time.Now()
		id := "selftest-" + strconv.Itoa(n+1)
		p, err := r.network.Attach(ctx, vnet.PortOptions{Name: id, ID: id}, sink)
		if err != nil {
			c.refused, c.first, c.at = err, err, n
			break
		}
		c.took = append(c.took, time.Since(start))
		c.ports, c.sinks = append(c.ports, p), append(c.sinks, sink)
		note(n + 1)
	}
	return c
}

// reach broadcasts a frame and returns which ports did not get it.
func (r *run) reach(ctx context.Context, c *count, probe []byte) (deaf []string) {
	if probe == nil || r.guests[0].Send(probe) != nil {
		return nil
	}
	limit := time.NewTimer(r.opts.Answer)
	defer limit.Stop()
	over := false
	for i, s := range c.sinks {
		if !over {
			select {
			case <-s.came:
			case <-limit.C:
				over = true
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-s.came:
		default:
			deaf = append(deaf, strconv.Itoa(len(r.guests)+i+1))
		}
	}
	return deaf
}

// closeAll closes ports, a few at once as a daemon does, and returns the first error.
func closeAll(ports []vnet.Port) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	few := make(chan struct{}, 4)
	for _, p := range ports {
		few <- struct{}{}
		wg.Go(func() {
			if err := p.Close(); err != nil {
				once.Do(func() { first = fmt.Errorf("close a port: %w", err) })
			}
			<-few
		})
	}
	wg.Wait()
	return first
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
