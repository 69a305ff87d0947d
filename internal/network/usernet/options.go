// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"log/slog"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

// Options describe the network. Only Config.Mode and Start are required.
type Options struct {
	gateway.Config

	// Start starts a gateway on its end of a pair of sockets, which it takes over.
	Start func(end *os.File) (*os.Process, error)
	// Inherited is a gateway that runs already, and goes on with Resume; nil = one is started. After an error of New it is still the
	// caller's.
	Inherited *Inherited

	// LateForwards lets the network start without the ports that others have now, and tries those again. Else New fails.
	LateForwards bool
	Leases       store // keeps leases across restarts; nil = they end with the network
	Log          *slog.Logger

	tune tuning
}

// tuning is what tests change.
type tuning struct {
	wall     func() time.Time
	tick     time.Duration // in the place of tickTime
	minDelay time.Duration // in the place of minDelay
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.tune.wall == nil {
		o.tune.wall = time.Now
	}
	if o.tune.tick == 0 {
		o.tune.tick = tickTime
	}
	if o.tune.minDelay == 0 {
		o.tune.minDelay = minDelay
	}
}
