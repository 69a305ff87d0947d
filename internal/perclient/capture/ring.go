// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// chunkSize is how much memory a shard takes at a time, in bytes. The longest frame fits in.
	chunkSize = 128 << 10

	// shardCount is how many clients can be copied from at once.
	shardCount = 8

	// lostSlots is how many clients' losses a shard tells apart between two visits of the writer.
	lostSlots = 16
)

// A direction is a frame's.
type direction uint8

const (
	fromClient direction = iota
	toClient
)

// A record is a frame in a chunk:
//
//	8 time, ns since the capture began | 8 client | 4 length of the frame | 3 length here, 1 direction | data
const recordHead = 24

// A record is a frame as the writer gets it. data is valid until the next one.
type record struct {
	at     int64 // ns since the capture began
	client uint64
	length int // of the whole frame, in bytes
	dir    direction
	data   []byte
}

// A chunk holds records.
type chunk struct {
	buf  []byte // full length
	used int
	read int // by the writer
}

func (c *chunk) room() int { return len(c.buf) - c.used }

// put appends a record, for which there is room.
func (c *chunk) put(at int64, client uint64, dir direction, f []byte, n int) {
	b := c.buf[c.used : c.used+recordHead+n]
	binary.LittleEndian.PutUint64(b, uint64(at))
	binary.LittleEndian.PutUint64(b[8:], client)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(f)))
	binary.LittleEndian.PutUint32(b[20:], uint32(n)<<8|uint32(dir))
	copy(b[recordHead:], f[:n])
	c.used += recordHead + n
}

// time is that of the next record, if there is one.
func (c *chunk) time() (int64, bool) {
	if c.read == c.used {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(c.buf[c.read:])), true
}

// next reads the next record, which there is.
func (c *chunk) next() record {
	b := c.buf[c.read:c.used]
	mix := binary.LittleEndian.Uint32(b[20:])
	n := int(mix >> 8)
	c.read += recordHead + n
	return record{
		at:     int64(binary.LittleEndian.Uint64(b)),
		client: binary.LittleEndian.Uint64(b[8:]),
		length: int(binary.LittleEndian.Uint32(b[16:])),
		dir:    direction(mix & 0xff),
		data:   b[recordHead : recordHead+n],
	}
}

// lost counts frames of a client for which there was no room.
type lost struct {
	client uint64
	n      uint64
}

// A shard takes the frames of some clients. Only a copy is made under its lock.
type shard struct {
	mu   sync.Mutex
	cur  *chunk   // nil: none
	full []*chunk // oldest first; has room for all there are

	lost     [lostSlots]lost
	lostUsed int
	lostRest uint64 // of clients without a slot

	_ [64]byte // other shards are on other cache lines
}

// A ring is the bounded memory between the clients and the writer.
type ring struct {
	began  time.Time
	snap   int // bytes of a frame that are kept
	shards [shardCount]shard
	free   chan *chunk
}

// newRing makes one that takes memory bytes, at least two chunks for each shard.
func newRing(memory, snap int) *ring {
	n := max(memory/chunkSize, 2*shardCount)
	r := &ring{began: time.Now(), snap: snap, free: make(chan *chunk, n)}
	all := make([]byte, n*chunkSize)
	for i := range n {
		r.free <- &chunk{buf: all[i*chunkSize : (i+1)*chunkSize : (i+1)*chunkSize]}
	}
	for i := range r.shards {
		r.shards[i].full = make([]*chunk, 0, n)
	}
	return r
}

// put copies the frames of b, or counts them where there is no room. The clock is read once. pressing tells that the writer
// should not let it lie.
func (r *ring) put(client uint64, dir direction, b frame.Batch) (pressing bool) {
	s := &r.shards[client%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Read under the lock, so that times never go back in a shard.
	at := int64(time.Since(r.began))
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		n := min(len(f), r.snap)
		if s.cur == nil || s.cur.room() < recordHead+n {
			if !r.more(s) {
				s.lose(client)
				continue
			}
		}
		s.cur.put(at, client, dir, f, n)
	}
	return len(s.full) > 0
}

// more gives s another chunk, if there is one.
func (r *ring) more(s *shard) bool {
	select {
	case c := <-r.free:
		if s.cur != nil {
			s.full = append(s.full, s.cur)
		}
		s.cur = c
		return true
	default:
		return false
	}
}

// lose counts a frame that there was no room for.
func (s *shard) lose(client uint64) {
	for i := range s.lost[:s.lostUsed] {
		if s.lost[i].client == client {
			s.lost[i].n++
			return
		}
	}
	if s.lostUsed == lostSlots {
		s.lostRest++
		return
	}
	s.lost[s.lostUsed] = lost{client, 1}
	s.lostUsed++
}

// release gives a chunk back.
func (r *ring) release(c *chunk) {
	c.used, c.read = 0, 0
	r.free <- c // has room for all
}

// empty tells whether there is nothing for the writer.
func (r *ring) empty() bool {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		something := s.lostUsed > 0 || s.cur != nil && s.cur.used > 0 || len(s.full) > 0
		s.mu.Unlock()
		if something {
			return false
		}
	}
	return true
}
