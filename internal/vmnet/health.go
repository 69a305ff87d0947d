// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// A general failure may pass; this many of them within this time are the end of an interface.
const (
	maxFailures   = 3
	failureWindow = time.Second
)

// A verdict is what a failed read or write means for the interface.
type verdict int

const (
	verdictRefused   verdict = iota // the packets are to blame
	verdictExhausted                // the kernel has no buffers for the moment
	verdictFailed                   // nobody knows
	verdictDead                     // the interface is gone
)

// judge sorts a status other than Success.
func judge(st api.Status) verdict {
	switch st {
	case api.InvalidArgument, api.PacketTooBig, api.TooManyPackets:
		return verdictRefused
	case api.BufferExhausted, api.MemFailure:
		return verdictExhausted
	case api.InvalidAccess, api.SetupIncomplete:
		return verdictDead
	}
	return verdictFailed
}

// failures remembers when the last general failures were.
type failures struct {
	mu   sync.Mutex
	last [maxFailures]time.Time // oldest first
}

// add reports that this failure is one too many.
func (f *failures) add(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	copy(f.last[:], f.last[1:])
	f.last[maxFailures-1] = now
	return !f.last[0].IsZero() && now.Sub(f.last[0]) <= failureWindow
}
