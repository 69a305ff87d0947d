// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const (
	startLimit = 50 * time.Millisecond // for the best start
	startRuns  = 10
	quickRuns  = 2
)

// start measures how long the daemon takes from being executed until it has served a client.
func (b *bench) start(ctx context.Context) ([]verdict, error) {
	runs := startRuns
	if b.p.Quick {
		runs = quickRuns
	}
	var took []float64
	for i := range runs {
		t, err := b.Ready(ctx, rounds.Daemon)
		if err != nil {
			return nil, err
		}
		took = append(took, 1e3*t.Seconds())
		b.more = append(b.more, rounds.Round{
			Series: seriesStart, Setup: "daemon start", Round: i, Relay: rounds.Daemon, Transport: "stream", Clients: 1, Seconds: t.Seconds(),
		})
	}
	return []verdict{startVerdict(took)}, nil
}

func startVerdict(took []float64) verdict {
	return verdict{
		Key: keyStart, Text: "from its start until a client is served", Unit: unitMS, AtMost: true, Target: float64(startLimit.Milliseconds()),
		Subject: slices.Min(took), Remarks: fmt.Sprintf("the best of %d; their median is %.1f ms", len(took), median(took)),
	}.decide()
}
