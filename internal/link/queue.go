// SPDX-License-Identifier: Apache-2.0

package link

import "slices"

// A queue is a queue of frames made of pooled chunks, each of whole frames. Only its first bytes may be the rest of a frame.
type queue struct {
	chunks [][]byte // each filled to its length; the last one may have room left
	size   int      // bytes in chunks
}

// push puts b, the rest of a frame, into an empty queue, and reports whether there was memory.
func (q *queue) push(b []byte) bool {
	c, err := chunks.get()
	if err != nil {
		return false
	}
	q.chunks = append(q.chunks, c[:copy(c, b)])
	q.size = len(b)
	return true
}

// unpop puts back a chunk that pop returned, or what is left of it.
func (q *queue) unpop(c []byte) {
	q.chunks = slices.Insert(q.chunks, 0, c)
	q.size += len(c)
}

// head is a copy of the first n bytes, which are in the first chunk.
func (q *queue) head(n int) []byte {
	if n == 0 {
		return nil
	}
	return slices.Clone(q.chunks[0][:n])
}

// countFrom is how many whole frames follow the first n bytes, which are the rest of a frame, and their size in wire form.
func (q *queue) countFrom(n int) (frames, size int) {
	for _, c := range q.chunks {
		f, end := fit(c[n:], len(c))
		frames, size, n = frames+f, size+end, 0
	}
	return frames, size
}

// giveBack returns the chunks from index i on to the pool.
func (q *queue) giveBack(i int) {
	for _, c := range q.chunks[i:] {
		chunks.put(c)
	}
	clear(q.chunks[i:])
	q.chunks = q.chunks[:i]
}

// pop takes the first chunk. The caller writes it out and puts it back into the pool.
func (q *queue) pop() ([]byte, bool) {
	if q.size == 0 {
		return nil, false
	}
	c := q.chunks[0]
	n := copy(q.chunks, q.chunks[1:])
	q.chunks[n] = nil
	q.chunks = q.chunks[:n]
	q.size -= len(c)
	return c, true
}

// drop empties the queue.
func (q *queue) drop() {
	q.giveBack(0)
	q.size = 0
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
