// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// interfacesTime is how long interfaces are started; the rest of the step is for closing them.
const interfacesTime = 15 * time.Second

// interfaces starts as many ports as it may, and checks that a broadcast reaches all of them.
func (r *run) interfaces(ctx context.Context) Step {
	var more []*guest
	var took []time.Duration
	var refused error
	all := len(r.guests)
	for end := time.Now().Add(interfacesTime); all < r.opts.Interfaces && time.Now().Before(end) && ctx.Err() == nil; all++ {
		start := time.Now()
		g, err := r.plug(ctx, strconv.Itoa(all+1), nil)
		if err != nil {
			refused = err
			break
		}
		took = append(took, time.Since(start))
		more = append(more, g)
	}
	sharing, first := r.sharing()
	at := 0 // how many ports there were before the first one that was refused, or has no interface of its own
	if refused != nil {
		first, at = refused, all
	} else if sharing > 0 {
		at = all - sharing
	}
	deaf := r.deaf(ctx, more)
	closing := time.Now()
	closed := closeAll(more)
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
	return pass(values)
}

// deaf broadcasts a frame and returns which guests of more did not get it.
func (r *run) deaf(ctx context.Context, more []*guest) (ports []string) {
	from := r.guests[0]
	if r.opts.Isolated || !from.Addr().IsValid() {
		return nil
	}
	f := frames(from, fakeguest.Broadcast, broadcastIP, 1, 100)[0]
	heard := make([]*fakeguest.Listener, len(more))
	for i, g := range more {
		heard[i] = g.Listen(like(f))
	}
	if from.Send(f) != nil {
		return nil
	}
	end := time.Now().Add(r.opts.Answer)
	for i, g := range more {
		if _, err := heard[i].Next(time.Until(end)); err != nil && ctx.Err() == nil {
			ports = append(ports, g.name)
		}
	}
	return ports
}

// closeAll closes guests, a few at once as a daemon does, and returns an error of one of their ports.
func closeAll(guests []*guest) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(guests))
	few := make(chan struct{}, 4)
	for _, g := range guests {
		few <- struct{}{}
		wg.Go(func() {
			if err := g.Port().Close(); err != nil {
				failed <- err
			}
			g.unwatch()
			g.Close()
			<-few
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}
