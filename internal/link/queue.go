// SPDX-License-Identifier: Apache-2.0

package link

// A queue is a byte queue of whole frames made of pooled chunks. Only its first bytes may be the rest of a frame.
type queue struct {
	chunks [][]byte // each filled to its length; the last one may have room left
	size   int      // bytes in chunks
}

// push appends b and reports whether there was memory for all of it. Without, nothing was appended.
func (q *queue) push(b []byte) bool {
	var tail []byte
	if n := len(q.chunks); n > 0 {
		tail = q.chunks[n-1]
	}
	need := (len(b) - (cap(tail) - len(tail)) + chunkLen - 1) / chunkLen
	had := len(q.chunks)
	for range need {
		c, err := chunks.get()
		if err != nil {
			q.giveBack(had)
			return false
		}
		q.chunks = append(q.chunks, c[:0])
	}
	q.size += len(b)
	for i := max(had-1, 0); len(b) > 0; i++ {
		c := q.chunks[i]
		n := copy(c[len(c):cap(c)], b)
		q.chunks[i] = c[:len(c)+n]
		b = b[n:]
	}
	return true
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
