// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/pkt"
)

// maxRetries bounds the writes that one batch may try again while the kernel has no buffers. A batch of 200 is cut down to
// single packets in 8 steps.
const maxRetries = 8

// counters are a client's frames that were dropped.
type counters struct {
	hairpin, oversize, refused, exhausted, down, closed atomic.Uint64 // from the client
	lostOversize, lostOdd                               atomic.Uint64 // for the client
}

// An outlet writes one client's frames to a device. One goroutine at a time uses it. In the common case a batch of the
// client is one vmnet_write straight from the client's buffer.
type outlet struct {
	w      *pkt.Writer
	counts *counters

	// of the batch that is being sent
	dev     *device
	batch   frame.Batch
	retries int
}

// newOutlet makes an outlet that writes at most so many packets with one call.
func newOutlet(packets int, c *counters) *outlet {
	return &outlet{w: pkt.NewWriter(packets), counts: c}
}

// send writes b to d, which the caller has entered. It never sleeps.
func (o *outlet) send(d *device, b frame.Batch) {
	o.dev, o.batch, o.retries = d, b, maxRetries
	o.w.Begin(b)
	defer o.end()
	start := 0     // offset of the chunk that is being gathered
	it := b.Iter() // not in the for clause: there each turn makes a copy of it, which costs more than all else
	for it.Next() {
		f := it.Frame()
		if len(f) > d.maxPacket {
			o.counts.oversize.Add(1)
			continue
		}
		if o.w.Len() > 0 && (o.w.Len() >= d.writeMax || o.w.Bytes()+len(f) > maxBytes) || !o.w.Add(f) {
			o.flush(start)
			start = it.Offset()
			o.w.Add(f)
		}
	}
	o.flush(start)
}

func (o *outlet) end() {
	o.w.End()
	o.dev, o.batch = nil, frame.Batch{}
}

// flush writes the chunk that begins at offset start of the batch, and empties the writer.
func (o *outlet) flush(start int) {
	n := o.w.Len()
	if n == 0 {
		return
	}
	st := o.write()
	if st != api.Success {
		o.rescue(start, n, st)
	}
}

func (o *outlet) write() api.Status {
	if o.dev.isDead() {
		o.w.Truncate()
		return api.InvalidAccess
	}
	st := o.dev.ifc.Write(o.w)
	o.w.Truncate()
	return st
}

// rescue writes what can be written of n frames from offset start on, after writing them together has failed with st, and
// counts the rest. vmnet_write does all or nothing, so a bad frame is found by halving.
func (o *outlet) rescue(start, n int, st api.Status) {
	var count *atomic.Uint64
	switch o.dev.fault(callWrite, st) {
	case verdictDead:
		count = &o.counts.down
	case verdictRefused:
		if n > 1 {
			o.halves(start, n)
			return
		}
		count = &o.counts.refused
		o.dev.net.log.Warn("macOS did not take a frame", "client", o.dev.who, "error", st)
	case verdictExhausted:
		if n > 1 && o.retries > 0 {
			o.halves(start, n)
			return
		}
		count = &o.counts.exhausted
		o.dev.net.exhausted.Add(uint64(n))
	default:
		count = &o.counts.refused
		o.dev.net.log.Warn("macOS did not take frames", "client", o.dev.who, "frames", n, "error", st)
	}
	count.Add(uint64(n))
}

// halves writes n frames from offset start on in two parts.
func (o *outlet) halves(start, n int) {
	next := o.part(start, n/2)
	o.part(next, n-n/2)
}

// part writes n frames from offset start on and returns the offset behind them.
func (o *outlet) part(start, n int) int {
	it := frame.NewBatch(o.batch.Bytes()[start:], n).Iter()
	for o.w.Len() < n && it.Next() {
		if f := it.Frame(); len(f) <= o.dev.maxPacket {
			o.w.Add(f)
		}
	}
	next := start + it.End()
	n = o.w.Len()
	if n == 0 {
		return next
	}
	o.retries--
	if st := o.write(); st != api.Success {
		o.rescue(start, n, st)
	}
	return next
}

// maxSeen is how many of a client's addresses are remembered. Few have more than one.
const maxSeen = 4

// seenMACs are the addresses that a client last sent from. One goroutine at a time notes, others may list.
type seenMACs struct {
	mac  [maxSeen]atomic.Uint64 // 0 = none
	next int
}

// note remembers the source of a run's first frame; the others mostly have the same.
func (s *seenMACs) note(b frame.Batch) {
	it := b.Iter()
	if !it.Next() {
		return
	}
	mac := binary.BigEndian.Uint64(it.Frame()[6:]) >> 16
	for i := range s.mac {
		if s.mac[i].Load() == mac {
			return
		}
	}
	s.mac[s.next%maxSeen].Store(mac)
	s.next++
}

// contains reports whether mac is one of the addresses.
func (s *seenMACs) contains(mac uint64) bool {
	for i := range s.mac {
		if s.mac[i].Load() == mac {
			return true
		}
	}
	return false
}

// count is how many addresses there are.
func (s *seenMACs) count() (n int) {
	for i := range s.mac {
		if s.mac[i].Load() != 0 {
			n++
		}
	}
	return n
}

// announcement is a batch with one broadcast from each address, so that bridges learn where they are now: a reverse ARP
// request (RFC 903), which hypervisors send after a guest has moved. Nobody answers it.
func (s *seenMACs) announcement() frame.Batch {
	var buf []byte
	n := 0
	for i := range s.mac {
		mac := binary.BigEndian.AppendUint64(nil, s.mac[i].Load())[2:]
		if s.mac[i].Load() == 0 || mac[0]&1 != 0 {
			continue
		}
		f := slices.Concat(
			[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, []byte{0x80, 0x35}, // RARP
			[]byte{0, 1, 8, 0, 6, 4, 0, 3},             // Ethernet, IPv4, request reverse
			mac, make([]byte, 4), mac, make([]byte, 4), // sender, target
			make([]byte, 18), // up to Ethernet's 60
		)
		buf = frame.Append(buf, f)
		n++
	}
	return frame.NewBatch(buf, n)
}
