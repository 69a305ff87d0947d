// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// maxRetries bounds the writes that one batch may try again while the kernel has no buffers. A batch of 200 is cut down to
// single packets in 8 steps.
const maxRetries = 8

// A writer writes one client's frames to the interface behind its port, own or shared. One goroutine at a time uses it. In the
// common case a batch of the client is one vmnet_write straight from the client's buffer.
type writer struct {
	*api.Writer
	counts *counters

	// of the batch that is being sent
	to      *iface
	batch   frame.Batch
	retries int
}

// send writes b to an interface, nil if there is none. It never sleeps.
func (w *writer) send(to *iface, b frame.Batch) {
	if to == nil || !to.writes.Enter() {
		w.counts.down.Add(uint64(b.Len()))
		return
	}
	defer to.writes.Leave()
	w.to, w.batch, w.retries = to, b, maxRetries
	w.Begin(b)
	defer w.finish()
	start := 0     // offset of the chunk that is being gathered
	it := b.Iter() // not in the for clause: there each turn makes a copy of it, which costs more than all else
	for it.Next() {
		f := it.Frame()
		if len(f) > to.maxPacket {
			w.counts.oversize.Add(1)
			continue
		}
		if w.Len() > 0 && (w.Len() >= to.writeMax || w.Bytes()+len(f) > maxBytes) || !w.Add(f) {
			w.flush(start)
			start = it.Offset()
			w.Add(f)
		}
	}
	w.flush(start)
}

func (w *writer) finish() {
	w.End()
	w.to, w.batch = nil, frame.Batch{}
}

// flush writes the chunk that begins at offset start of the batch, and empties the writer.
func (w *writer) flush(start int) {
	n := w.Len()
	if n == 0 {
		return
	}
	if st := w.write(); st != api.Success {
		w.rescue(start, n, st)
	}
}

func (w *writer) write() api.Status {
	defer w.Truncate()
	if w.to.isDead() {
		return api.InvalidAccess
	}
	return w.to.ifc.Write(w.Writer)
}

// rescue writes what can be written of n frames from offset start on, after writing them together has failed with st, and
// counts the rest. vmnet_write does all or nothing, so a bad frame is found by halving.
func (w *writer) rescue(start, n int, st api.Status) {
	var count *atomic.Uint64
	switch w.to.fault("vmnet_write", st) {
	case verdictDead:
		count = &w.counts.down
	case verdictRefused:
		if n > 1 {
			w.halves(start, n)
			return
		}
		count = &w.counts.refused
		w.to.net.log.Warn("macOS did not take a frame", "client", w.to.name, "error", st)
	case verdictExhausted:
		if n > 1 && w.retries > 0 {
			w.halves(start, n)
			return
		}
		count = &w.counts.exhausted
		w.to.net.exhausted.Add(uint64(n))
	default:
		count = &w.counts.refused
		w.to.net.log.Warn("macOS did not take frames", "client", w.to.name, "frames", n, "error", st)
	}
	count.Add(uint64(n))
}

// halves writes n frames from offset start on in two parts.
func (w *writer) halves(start, n int) {
	next := w.part(start, n/2)
	w.part(next, n-n/2)
}

// part writes n frames from offset start on and returns the offset behind them.
func (w *writer) part(start, n int) int {
	it := frame.NewBatch(w.batch.Bytes()[start:], n).Iter()
	for w.Len() < n && it.Next() {
		if f := it.Frame(); len(f) <= w.to.maxPacket {
			w.Add(f)
		}
	}
	w.retries--
	w.flush(start)
	return start + it.End()
}

// maxSeen is how many of a client's addresses are remembered. Few have more than one.
const maxSeen = 4

// seenMACs are the addresses that a client last sent from. One goroutine at a time notes, others may look.
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
	if mac := binary.BigEndian.Uint64(it.Frame()[6:]) >> 16; !s.contains(mac) {
		s.mac[s.next%maxSeen].Store(mac)
		s.next++
	}
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
// request (RFC 903), which hypervisors send after a guest has moved. It has no answer.
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
