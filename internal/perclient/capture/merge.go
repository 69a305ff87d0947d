// SPDX-License-Identifier: Apache-2.0

package capture

import "time"

// A merger is the writer's end of a ring: it puts the shards' frames into the order of their times. One goroutine uses it.
type merger struct {
	r       *ring
	waiting [shardCount][]*chunk // taken and not yet read, oldest first
	lost    func(client, n uint64)
	rest    func(n uint64) // lost, and it is not known of whom
}

// drain hands all records to f that were there when it was called, by time, until f says that it has enough. It returns how
// many there were.
func (m *merger) drain(f func(record) bool) (n int) {
	// Nothing that a shard gets after this is older.
	now := int64(time.Since(m.r.began))
	for i := range m.r.shards {
		m.take(i)
	}
	for {
		oldest, at := -1, now+1
		for i := range m.waiting {
			if t, ok := m.head(i); ok && t < at {
				oldest, at = i, t
			}
		}
		if oldest < 0 {
			return n
		}
		n++
		if !f(m.waiting[oldest][0].next()) {
			return n
		}
	}
}

// more tells whether there are records that came while drain began: the ring does not have them any more.
func (m *merger) more() bool {
	for i := range m.waiting {
		if _, ok := m.head(i); ok {
			return true
		}
	}
	return false
}

// take gets what shard i has.
func (m *merger) take(i int) {
	s := &m.r.shards[i]
	s.mu.Lock()
	m.waiting[i] = append(m.waiting[i], s.full...)
	clear(s.full)
	s.full = s.full[:0]
	if s.cur != nil && s.cur.used > 0 {
		m.waiting[i] = append(m.waiting[i], s.cur)
		s.cur = nil
	}
	missed, rest := s.lost, s.lostRest
	used := s.lostUsed
	s.lostUsed, s.lostRest = 0, 0
	s.mu.Unlock()
	for _, l := range missed[:used] {
		m.lost(l.client, l.n)
	}
	if rest > 0 {
		m.rest(rest)
	}
}

// head is the time of the next record of shard i. Chunks that have been read are given back.
func (m *merger) head(i int) (int64, bool) {
	for len(m.waiting[i]) > 0 {
		c := m.waiting[i][0]
		if t, ok := c.time(); ok {
			return t, true
		}
		m.r.release(c)
		copy(m.waiting[i], m.waiting[i][1:])
		m.waiting[i] = m.waiting[i][:len(m.waiting[i])-1]
	}
	return 0, false
}
