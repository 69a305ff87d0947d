// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net"
	"time"

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

// past wakes whoever waits for a socket.
var past = time.Unix(1, 0)

// Pause implements Pausable.
func (s *Stream) Pause() {
	s.paused.Store(true)
	_ = s.conn.SetReadDeadline(past)
}

// Resume implements Pausable.
func (s *Stream) Resume() {
	s.mu.Lock()
	s.parked = false
	if s.out.size > 0 && !s.busy && !s.closed { // the rest of a frame
		s.drainMore()
	}
	s.mu.Unlock()
	s.paused.Store(false)
	if s.shutdown.Load() == nil {
		_ = s.conn.SetReadDeadline(time.Time{})
	}
	if s.shutdown.Load() != nil { // meanwhile
		_ = s.conn.SetReadDeadline(past)
	}
}

// Save implements Pausable.
func (s *Stream) Save() Saved {
	s.mu.Lock()
	s.parked = true
	s.mu.Unlock()
	_ = s.conn.SetWriteDeadline(past)
	s.drainer.Wait()
	_ = s.conn.SetWriteDeadline(time.Time{})
	s.mu.Lock()
	v := Saved{FD: s.fd, Out: s.out.head(s.owed)}
	frames, size := s.out.countFrom(s.owed)
	s.out.drop()
	s.dropQueued(frames, size)
	if len(v.Out) > 0 && !s.out.push(v.Out) { // for Resume
		s.ended = true
		s.fail(fmt.Errorf("queue the rest of a frame: %w", ErrNoMemory))
	}
	s.mu.Unlock()
	v.In = append(v.In, s.rd.buf[:s.rd.have]...)
	v.Stats = s.Stats()
	v.Stats.Queued = 0
	return v
}

// dropQueued takes frames that were queued for the client, of size bytes in wire form, back. The caller holds mu.
func (s *Stream) dropQueued(frames, size int) {
	s.stats.ToClientFrames -= uint64(frames)
	s.stats.ToClientBytes -= uint64(size - frames*frame.PrefixLen)
	s.stats.DropQueueFull += uint64(frames)
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
	s.stats = v.Stats
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
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.out.push(v.Out) {
			return nil, fmt.Errorf("restore a client: %w", ErrNoMemory)
		}
		s.owed = len(v.Out)
		s.drainMore()
	}
	return s, nil
}

// Pause implements Pausable.
func (d *Datagram) Pause() {
	d.paused.Store(true)
	_ = d.conn.SetReadDeadline(past)
}

// Resume implements Pausable.
func (d *Datagram) Resume() {
	d.out.Unpark()
	d.paused.Store(false)
	if d.shutdown.Load() == nil {
		_ = d.conn.SetReadDeadline(time.Time{})
	}
	if d.shutdown.Load() != nil { // meanwhile
		_ = d.conn.SetReadDeadline(past)
	}
}

// Save implements Pausable.
func (d *Datagram) Save() Saved {
	_ = d.conn.SetWriteDeadline(past) // wakes the drainer
	d.out.Park()
	if !d.closed.Load() {
		_ = d.conn.SetWriteDeadline(time.Time{})
	}
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
	frames, size := o.out.countFrom(0)
	o.out.drop()
	o.stats.ToClientFrames -= uint64(frames)
	o.stats.ToClientBytes -= uint64(size - frames*frame.PrefixLen)
	o.stats.DropQueueFull += uint64(frames)
}

// Unpark undoes Park.
func (o *Outbox) Unpark() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.parked && !o.closed {
		o.parked = false
		o.stop = make(chan struct{})
	}
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
