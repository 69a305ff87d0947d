// SPDX-License-Identifier: Apache-2.0

// Package link carries frames between the daemon and one client each: it reads a client's frames and delivers frames to it
// without ever blocking on it. It knows neither networks nor sessions.
package link

import (
	"errors"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// DefaultQueueSize is how much one client may be behind with reading before frames for it are dropped, in bytes: 1.7 ms
// at 10 Gbit/s. A TCP window of 2 MB saw losses of 23 % at 1 MiB and of 0 at 4 MiB.
const DefaultQueueSize = 2 << 20

// Errors by which Run tells why it ended. A peer that closed its end is io.EOF.
var (
	// ErrShutdown: Shutdown was called.
	ErrShutdown = errors.New("link shut down")
	// errNoMemory: the system had no memory for a read buffer. Only this client is given up.
	errNoMemory = errors.New("no memory for a read buffer")
	// ErrDetached: Interrupt was called. Nothing is lost: what the client has sent and was not handed on waits in its socket or
	// in the link's State.
	ErrDetached = errors.New("link detached")
)

// A Handler takes the frames that a client sent. It is called by the client's read loop, one call at a time; b is borrowed
// until it returns.
type Handler interface {
	Frames(b frame.Batch)
}

// A Link is one client, whatever its socket is. Run belongs to one goroutine; everything else may be called from any.
//
//	open --Shutdown, or the client has gone--> draining --Run returns--> Close --> closed
//	open --Interrupt--> Run returns ErrDetached --Detach--> a State, of which another Link is made
type Link interface {
	frame.Sink
	frame.Bounded
	// Run hands the client's frames to h until the client has gone (io.EOF), its link has failed, Shutdown is called
	// (ErrShutdown), or Interrupt (ErrDetached). h is not called any more once it has returned.
	Run(h Handler) error
	// Drain is what Run does before it returns, for a caller whose Run has ended by a panic.
	Drain()
	// Shutdown makes Run end in order, by the times of sched. Frames for the client are dropped from now on.
	Shutdown(sched DrainSchedule)
	// Close ends the link at once; nothing is written after it returns. It is called after Run.
	Close() error
	// Interrupt makes Run return ErrDetached once every whole frame that was read is handed on, unless it ends otherwise.
	Interrupt()
	// Detach ends the link without a word to the client, whose socket stays open: State has it. It is called once Run has
	// returned ErrDetached and Deliver is not called any more. Whole frames that wait for the client are dropped and counted.
	Detach() State
	// Gone reports whether the client is known to have left, without waiting.
	Gone() bool
	Stats() Stats
	// Hold, called by a Handler, has Run read less for as long as another client is behind, but go on within a millisecond. A reader of
	// several clients does not wait.
	Hold(behind frame.Bounded)
	// Fd is the number of the descriptor that the client is served by, for a caller that knows that the link is not closed.
	Fd() int
}

var _, _ Link = (*stream)(nil), (*Datagram)(nil)

// Stats are a link's counters. Directions are named from the daemon's clients' side: toNet is what the client sent.
type Stats struct {
	ToNetFrames, ToNetBytes       uint64
	ToClientFrames, ToClientBytes uint64 // accepted for the client, some of it perhaps still queued
	DropQueueFull                 uint64 // frames for the client, above its queue's size
	DropClosed                    uint64 // frames for the client after its link was shut down
	DropRunt                      uint64 // frames from the client shorter than an Ethernet header
	DropLong                      uint64 // datagrams from the client longer than a frame may be
	DropForeign                   uint64 // datagrams from another sender on the client's own socket
	DropOversize                  uint64 // frames for the client longer than its datagram socket takes
	DropStarting                  uint64 // frames from the client that came before Run, more than is kept; counted above as well
	Queued                        int    // bytes waiting for the client
	// Stalled is for how long the client has taken nothing although something waits, or was dropped for having waited too long.
	Stalled time.Duration `json:"-"`
}

// Add adds the counters of d, but for Queued and Stalled, which are no counters.
func (s *Stats) Add(d Stats) {
	s.ToNetFrames += d.ToNetFrames
	s.ToNetBytes += d.ToNetBytes
	s.ToClientFrames += d.ToClientFrames
	s.ToClientBytes += d.ToClientBytes
	s.DropQueueFull += d.DropQueueFull
	s.DropClosed += d.DropClosed
	s.DropRunt += d.DropRunt
	s.DropLong += d.DropLong
	s.DropForeign += d.DropForeign
	s.DropOversize += d.DropOversize
	s.DropStarting += d.DropStarting
}

// A DrainSchedule says how long a link that the daemon closes goes on reading. QEMU's netdev stream loses its transmit side
// for good when its peer closes while it is blocked writing, and closing with unread data is a reset for the client; so what
// the client sends is read and discarded until it pauses. Times count from the begin of the drain.
type DrainSchedule struct {
	Quiet    time.Duration // silence at a frame boundary after which the link is closed
	Boundary time.Duration // from here on, close when nothing waits at a frame boundary
	Empty    time.Duration // from here on, close when nothing waits
	Hard     time.Duration // close whatever the client does
	Settle   time.Duration // where the client's writes can be refused: how long it has to notice before the close
}

// The two schedules in use.
var (
	// DrainOne is for closing one client while the daemon runs on.
	DrainOne = DrainSchedule{
		Quiet: 50 * time.Millisecond, Boundary: 80 * time.Millisecond, Empty: 90 * time.Millisecond, Hard: 100 * time.Millisecond,
		Settle: 100 * time.Millisecond,
	}
	// DrainStop is for the stop of the daemon, which has two seconds in all.
	DrainStop = DrainSchedule{
		Quiet: 50 * time.Millisecond, Boundary: 1000 * time.Millisecond, Empty: 1300 * time.Millisecond, Hard: 1500 * time.Millisecond,
		Settle: 300 * time.Millisecond,
	}
)
