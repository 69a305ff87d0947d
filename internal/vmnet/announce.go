// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

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
