// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// pingEvery is the time between two echo requests of StartPings.
const pingEvery = 100 * time.Millisecond

// StartPings has the guest send echo requests to address, numbered from 0, one every 100 ms until StopPings.
func (g *Guest) StartPings(ctx context.Context, address string) error {
	return g.Background(ctx, fmt.Sprintf("ping -i %.1f %s", pingEvery.Seconds(), address), "pings")
}

// Pings tells which of the requests sent since StartPings have been answered.
type Pings struct {
	// Answered is the number of answers, Last the number of the last request that was answered, -1 when none was.
	Answered, Last int
	// Outage is the time between the two answered requests that lie furthest apart, 100 ms when none was lost.
	Outage time.Duration
}

// Pings returns what has been answered so far.
func (g *Guest) Pings(ctx context.Context) (Pings, error) {
	r, err := g.Must(ctx, "cat /tmp/pings.log")
	return parsePings(r.Output), err
}

// StopPings ends StartPings and returns what was answered.
func (g *Guest) StopPings(ctx context.Context) (Pings, error) {
	r, err := g.EndBackground(ctx, "pings")
	return parsePings(r.Output), err
}

var seqRE = regexp.MustCompile(`(?m) seq=(\d+) ttl=.* ms$`)

func parsePings(log string) Pings {
	p := Pings{Last: -1}
	for _, m := range seqRE.FindAllStringSubmatch(log, -1) {
		seq, err := strconv.Atoi(m[1])
		if err != nil || seq <= p.Last { // a duplicate or a late one
			continue
		}
		if p.Answered > 0 {
			p.Outage = max(p.Outage, time.Duration(seq-p.Last)*pingEvery)
		}
		p.Answered++
		p.Last = seq
	}
	return p
}
