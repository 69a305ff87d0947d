// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

const (
	// readBufLen is the size of a read buffer in bytes. Reading 256 KiB at a time cost half the CPU per frame of 16 KiB
	// reads and nothing more was gained at 1 MiB. It holds the longest frame several times over.
	readBufLen = 256 << 10

	// chunkLen is the size of one piece of an overflow queue, in bytes. A piece holds any frame whole.
	chunkLen = 72 << 10
)

var (
	readBufs = buffers{size: readBufLen, Pool: mmsg.Pool[[]byte]{Drop: unmap}}
	chunks   = buffers{size: chunkLen, Pool: mmsg.Pool[[]byte]{Drop: unmap}}
)

// buffers are equal ones outside the garbage-collected heap, so that traffic makes no garbage and memory that was needed once is
// given back.
type buffers struct {
	size int // bytes
	mmsg.Pool[[]byte]
}

// get returns a buffer of the size with undefined content, or an error when the system has no memory.
func (p *buffers) get() ([]byte, error) {
	if b, ok := p.Get(); ok {
		return b[:p.size], nil
	}
	return mmsg.MapMemory(p.size)
}

// unmap cannot fail for a mapping of our own; if it does, the memory is lost but nothing else.
func unmap(b []byte) { _ = unix.Munmap(b[:cap(b)]) }

// A queue is a queue of frames made of pooled chunks, each of whole frames.
type queue struct {
	chunks [][]byte // each filled to its length; the last one may have room left
	gone   int      // bytes of the first one that are not in the queue any more
	size   int      // bytes in the queue
}

// count is how many frames there are.
func (q *queue) count() (frames int) {
	gone := q.gone
	for _, c := range q.chunks {
		n, _ := fit(c[gone:], len(c))
		frames, gone = frames+n, 0
	}
	return frames
}

// front is the begin of the queue, nil if it is empty. It stays as it is until advance, whatever is appended.
func (q *queue) front() []byte {
	if q.size == 0 {
		return nil
	}
	return q.chunks[0][q.gone:]
}

// advance takes n bytes, of whole frames, off the front.
func (q *queue) advance(n int) {
	q.gone += n
	q.size -= n
	if len(q.chunks) > 0 && q.gone == len(q.chunks[0]) {
		chunks.Put(q.chunks[0])
		q.chunks = slices.Delete(q.chunks, 0, 1)
		q.gone = 0
	}
}

// drop empties the queue.
func (q *queue) drop() {
	for _, c := range q.chunks {
		chunks.Put(c)
	}
	clear(q.chunks)
	q.chunks, q.gone, q.size = q.chunks[:0], 0, 0
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
