// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// chunkSize is how much memory is filled at a time, in bytes. The longest frame fits in.
const chunkSize = 128 << 10

// A direction is a frame's.
type direction uint8

const (
	fromClient direction = iota
	toClient
)

// recordHead is the length of what is in front of a frame in a chunk, in bytes:
//
//	8 time, ns since the capture began | 8 client | 4 length of the frame | 3 length here, 1 direction | data
const recordHead = 24

// A record is a frame as the writer gets it. data is valid until the chunk is given back.
type record struct {
	at     int64 // ns since the capture began
	client uint64
	length int // of the whole frame, in bytes
	dir    direction
	data   []byte
}

// next takes the first record from a chunk, which has one.
func next(chunk []byte) (r record, rest []byte) {
	mix := binary.LittleEndian.Uint32(chunk[20:])
	end := recordHead + int(mix>>8)
	return record{
		at:     int64(binary.LittleEndian.Uint64(chunk)),
		client: binary.LittleEndian.Uint64(chunk[8:]),
		length: int(binary.LittleEndian.Uint32(chunk[16:])),
		dir:    direction(mix & 0xff),
		data:   chunk[recordHead:end],
	}, chunk[end:]
}

// A ring is the bounded memory between the clients and the writer, in chunks of whole records. Only a copy is made under its lock.
type ring struct {
	began time.Time
	snap  int // bytes of a frame that are kept

	mu   sync.Mutex
	full [][]byte // oldest first; the last one may have room left
	free [][]byte
	lost map[uint64]uint64 // frames that there was no room for, by client
}

// newRing makes one that takes memory bytes.
func newRing(memory, snap int) *ring {
	n := max(memory/chunkSize, 2)
	r := &ring{began: time.Now(), snap: snap, full: make([][]byte, 0, n), lost: map[uint64]uint64{}}
	all := make([]byte, n*chunkSize)
	for i := range n {
		r.free = append(r.free, all[i*chunkSize:i*chunkSize:(i+1)*chunkSize])
	}
	return r
}

// put copies the frames of b, or counts them where there is no room. The clock is read once. pressing tells that the writer
// should not let it lie.
func (r *ring) put(client uint64, dir direction, b frame.Batch) (pressing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := uint64(time.Since(r.began)) // under the lock, so that times never go back
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		n := min(len(f), r.snap)
		last := len(r.full) - 1
		if last < 0 || cap(r.full[last])-len(r.full[last]) < recordHead+n {
			left := len(r.free) - 1
			if left < 0 {
				r.lost[client]++
				continue
			}
			r.full, r.free = append(r.full, r.free[left]), r.free[:left]
			last++
		}
		c := binary.LittleEndian.AppendUint64(r.full[last], at)
		c = binary.LittleEndian.AppendUint64(c, client)
		c = binary.LittleEndian.AppendUint32(c, uint32(len(f)))
		c = binary.LittleEndian.AppendUint32(c, uint32(n)<<8|uint32(dir))
		r.full[last] = append(c, f[:n]...)
	}
	return len(r.full) > 1
}

// take moves what there is to chunks, and what was lost to lost, both of which the writer has emptied.
func (r *ring) take(chunks [][]byte, lost map[uint64]uint64) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	chunks = append(chunks, r.full...)
	r.full = r.full[:0]
	maps.Copy(lost, r.lost)
	clear(r.lost)
	return chunks
}

// give gives chunks back.
func (r *ring) give(chunks [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range chunks {
		r.free = append(r.free, c[:0])
	}
}
