// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A queue is a queue of frames made of pooled chunks, each of whole frames.
type queue struct {
	chunks [][]byte // each filled to its length; the last one may have room left
	size   int      // bytes in chunks
}

// count is how many frames there are.
func (q *queue) count() (frames int) {
	for _, c := range q.chunks {
		n, _ := fit(c, len(c))
		frames += n
	}
	return frames
}

// pop takes the first chunk. The caller writes it out and puts it back into the pool.
func (q *queue) pop() ([]byte, bool) {
	if q.size == 0 {
		return nil, false
	}
	c := q.chunks[0]
	q.chunks = slices.Delete(q.chunks, 0, 1)
	q.size -= len(c)
	return c, true
}

// drop empties the queue.
func (q *queue) drop() {
	for _, c := range q.chunks {
		chunks.put(c)
	}
	clear(q.chunks)
	q.chunks, q.size = q.chunks[:0], 0
}

// pushWhole appends the whole frames in b so that none is cut by the end of a chunk. It returns how many frames and bytes
// were appended: fewer when the system has no memory.
func (q *queue) pushWhole(b []byte) (frames, end int) {
	for end < len(b) {
		var tail []byte
		last := len(q.chunks) - 1
		if last >= 0 {
			tail = q.chunks[last]
		}
		n, size := fit(b[end:], cap(tail)-len(tail))
		if n == 0 {
			c, err := chunks.get()
			if err != nil {
				break
			}
			q.chunks = append(q.chunks, c[:0])
			continue
		}
		q.chunks[last] = append(tail, b[end:end+size]...)
		frames += n
		end += size
		q.size += size
	}
	return frames, end
}

// fit is how many frames at the head of buf, and how many bytes, are within room bytes.
func fit(buf []byte, room int) (frames, end int) {
	it := frame.NewBatch(buf, 0).Iter()
	for it.Next() && it.End() <= room {
		frames++
		end = it.End()
	}
	return frames, end
}
