// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// readFrames is the read loop. The whole of it runs inside one RawConn.Read, whose callback returns false to wait for the
// next event. The socket is read until nothing is left: the poller reports edges.
func (d *Datagram) readFrames(h Handler) error {
	var err error
	poll := d.rc.Read(func(fd uintptr) bool {
		var r *mmsg.Receiver
		if r, err = mmsg.NewReceiver(d.named); err != nil {
			err = fmt.Errorf("%w: %w", errNoMemory, err)
			return true
		}
		defer r.Free()
		for {
			var again bool
			if again, err = d.receive(r, int(fd), h); err != nil || d.shutdown.Load() != nil || d.detaching.Load() {
				return true
			}
			if again {
				return false
			}
		}
	})
	if err == nil {
		err = poll
	}
	return err
}

// receive receives one batch and hands it on. again reports that nothing is left.
func (d *Datagram) receive(r *mmsg.Receiver, fd int, h Handler) (again bool, err error) {
	n, err := r.Receive(fd)
	switch {
	case err == unix.EAGAIN:
		return true, nil
	case isGone(err):
		return false, io.EOF
	case err != nil:
		return false, fmt.Errorf("receive from client: %w", err)
	case h == nil:
		return n < mmsg.BatchLen, nil
	}
	for first, end := 0, n; first < n; first, end = end, n {
		if d.named {
			if end = d.senderEnd(r, first, n); end == first {
				d.toNet.foreign.Add(1)
				end++
				continue
			}
		}
		d.handOn(r, first, end, h)
	}
	return n < mmsg.BatchLen, nil
}

// senderEnd is where the messages of the client end that begin at first, of n in all.
func (d *Datagram) senderEnd(r *mmsg.Receiver, first, n int) int {
	for first < n && bytes.Equal(r.Name(first), d.from) {
		first++
	}
	return first
}

// handOn gives messages first to end-1 of the last receive to h.
func (d *Datagram) handOn(r *mmsg.Receiver, first, end int, h Handler) {
	b, runts, long := r.Pack(first, end)
	if runts > 0 {
		d.toNet.runts.Add(uint64(runts))
	}
	if long > 0 {
		d.toNet.long.Add(uint64(long))
	}
	if b.Len() > 0 {
		d.toNet.frames.Add(uint64(b.Len()))
		d.toNet.bytes.Add(uint64(b.DataLen()))
		h.Frames(b)
	}
}

// rest takes what waits from the client, as its last words for h, or to discard it.
func (d *Datagram) rest(h Handler) {
	r, err := mmsg.NewReceiver(d.named)
	if err != nil {
		return
	}
	defer r.Free()
	// It fails only once closed, and then there is nothing to read.
	_ = d.rc.Control(func(fd uintptr) {
		for range lastBatches {
			if again, err := d.receive(r, int(fd), h); again || err != nil {
				return
			}
		}
	})
}
