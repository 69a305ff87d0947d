// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// freeAfter is how many sessions must have ended before memory is given back.
	freeAfter = 32
	// freeDelay is how long after that it is, so that clients which come back at once find it in place.
	freeDelay = time.Second
	// freeEvery is the least time between two times: each is a garbage collection.
	freeEvery = 10 * time.Second
)

// A freer gives memory back to the system after many clients have left. The data path makes no garbage, so the runtime
// would not collect what sessions leave behind, about 5 KB each, before there are megabytes of it: 64 clients that came and
// went eight times left 135 KiB per client that stayed.
type freer struct {
	mu    sync.Mutex
	ended int       // sessions since the last time
	last  time.Time // when memory was given back last
	timer *time.Timer
	free  func() // debug.FreeOSMemory; tests change it
}

// sessionEnded counts a session and arms the timer when it is time.
func (f *freer) sessionEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended++
	if f.ended < freeAfter || f.timer != nil {
		return
	}
	f.timer = time.AfterFunc(max(freeDelay, freeEvery-time.Since(f.last)), f.run)
}

func (f *freer) run() {
	f.mu.Lock()
	if f.timer == nil { // stopped
		f.mu.Unlock()
		return
	}
	f.ended, f.last, f.timer = 0, time.Now(), nil
	free := f.free
	f.mu.Unlock()
	if free == nil {
		free = func() {
			runtime.GC() // each collection halves stacks that have grown, and frees what the one before has only finished with
			debug.FreeOSMemory()
		}
	}
	free()
}

// stop disarms the timer.
func (f *freer) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	f.ended = -1 << 31 // no more
}
