// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// ErrPaused ends Run after Pause. Nothing is lost: what the client has sent and was not handed on waits in its socket or in
// the link, and Run may be called again after Resume.
var ErrPaused = errors.New("link paused")

// A Pausable link can stand still, so that its client is handed to another process image without noticing.
//
//	open --Pause--> Run returns ErrPaused --Save--> saved
//	   ^------------------Resume----------------------'
//
// Pause and Resume may be called from any goroutine. Save is called once Run has returned ErrPaused and nobody calls Deliver.
type Pausable interface {
	Link
	// Pause makes Run return ErrPaused once every whole frame that was read is handed on.
	Pause()
	// Resume undoes Pause and Save. A link that was shut down meanwhile goes on to its end in the next Run.
	Resume()
	// Save stops everything that is still on its way to the client and returns what another image needs to serve it. Whole
	// frames that wait for the client are dropped and counted, and so are those that are delivered until Resume.
	Save() Saved
}

var _, _ Pausable = (*Stream)(nil), (*Datagram)(nil)

// Saved is a paused link. The client's descriptor itself is to be kept open by its owner.
type Saved struct {
	FD    int    `json:"fd"`            // of the client's socket; -1 for a link without one of its own
	In    []byte `json:"in,omitempty"`  // stream: the begin of a frame, in wire form, that has not fully arrived
	Out   []byte `json:"out,omitempty"` // stream: the rest of a frame that was cut while it was written
	Stats Stats  `json:"stats"`
}

// check refuses what no link has saved.
func (v *Saved) check() error {
	if len(v.In) >= frame.PrefixLen+frame.MaxLen || len(v.Out) >= frame.PrefixLen+frame.MaxLen {
		return fmt.Errorf("restore a client: %d and %d bytes of frames are more than a frame", len(v.In), len(v.Out))
	}
	return nil
}

// Save implements Pausable.
func (s *Stream) Save() Saved {
	s.park()
	v := Saved{FD: s.fd, In: slices.Clone(s.rd.buf[:s.rd.have]), Out: slices.Clone(s.pipe.rest), Stats: s.Stats()}
	v.Stats.Queued = 0
	return v
}

// RestoreStream makes the link that was saved as v, on the same client's socket.
func RestoreStream(conn *net.UnixConn, o StreamOptions, v Saved) (*Stream, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	s, err := NewStream(conn, o)
	if err != nil {
		return nil, err
	}
	s.out.Count(v.Stats)
	s.rd.frames.Store(v.Stats.ToNetFrames)
	s.rd.bytes.Store(v.Stats.ToNetBytes)
	s.rd.runts.Store(v.Stats.DropRunt)
	if len(v.In) > 0 {
		if s.rd.buf, err = readBufs.get(); err != nil {
			return nil, fmt.Errorf("restore a client: %w: %w", ErrNoMemory, err)
		}
		s.rd.have = copy(s.rd.buf, v.In)
	}
	if len(v.Out) > 0 {
		if s.pipe.rest, err = chunks.get(); err != nil {
			return nil, fmt.Errorf("restore a client: %w: %w", ErrNoMemory, err)
		}
		s.pipe.owe(v.Out)
		s.out.Unpark()
	}
	return s, nil
}

// Save implements Pausable.
func (d *Datagram) Save() Saved {
	d.park()
	v := Saved{FD: d.fd, Stats: d.Stats()}
	v.Stats.Queued = 0
	return v
}

// RestoreDatagram makes the link that was saved as v, on the same client's socket.
func RestoreDatagram(conn *net.UnixConn, o DatagramOptions, v Saved) (*Datagram, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	d, err := NewDatagram(conn, o)
	if err != nil {
		return nil, err
	}
	d.toNet.frames.Store(v.Stats.ToNetFrames)
	d.toNet.bytes.Store(v.Stats.ToNetBytes)
	d.toNet.runts.Store(v.Stats.DropRunt)
	d.toNet.long.Store(v.Stats.DropLong)
	d.toNet.foreign.Store(v.Stats.DropForeign)
	d.out.Count(v.Stats)
	return d, nil
}

// Park ends the drainer and drops what is queued, counted. Frames that are delivered from now on are dropped and counted,
// until Unpark. The caller wakes the Pipe's Wait unless its stop channel does.
func (o *Outbox) Park() {
	o.mu.Lock()
	if o.closed || o.parked {
		o.mu.Unlock()
		return
	}
	o.parked = true
	close(o.stop)
	o.mu.Unlock()
	o.drainer.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, size := o.out.count(), o.out.size
	o.out.drop()
	o.stats.ToClientFrames -= uint64(frames)
	o.stats.ToClientBytes -= uint64(size - frames*frame.PrefixLen)
	o.stats.DropQueueFull += uint64(frames)
}

// Unpark undoes Park, and has what the Pipe owes written.
func (o *Outbox) Unpark() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.parked {
		o.parked = false
		o.stop = make(chan struct{})
	}
	o.wake()
}

// Count adds what another Outbox has counted for the same client.
func (o *Outbox) Count(st Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.ToClientFrames += st.ToClientFrames
	o.stats.ToClientBytes += st.ToClientBytes
	o.stats.DropQueueFull += st.DropQueueFull
	o.stats.DropClosed += st.DropClosed
	o.stats.DropOversize += st.DropOversize
}
