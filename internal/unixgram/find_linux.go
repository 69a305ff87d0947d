// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
)

const (
	// searchEvery is how often the list of all sockets is read at most, and maxRest how long a socket that was not found
	// rests after many times: it may be in another network namespace, and is never found then.
	searchEvery = time.Second
	maxRest     = time.Minute

	// maxParts bounds the parts of the list that are read.
	maxParts = 4096
)

// A search is for the number of the socket that is bound to the inode of a file.
type search struct {
	dev, inode uint32 // as the kernel has them

	queued bool
	vain   int       // how often it was not found in a row
	next   time.Time // not before

	ino    uint32 // of the socket; 0: not found
	cookie [8]byte
}

// A finder searches for sockets in the list of all, which takes milliseconds where there are thousands. So it does that in a
// goroutine of its own, for all that are searched for at once, and nobody waits for it.
type finder struct {
	mu     sync.Mutex // never held while the list is read
	queue  []*search
	armed  *time.Timer // reads the list, or is about to
	last   time.Time   // when it was read
	reads  int         // how often
	closed bool
	work   sync.WaitGroup
}

// find gives s its number if that has been found, and else has it searched for.
func (f *finder) find(s *diagSocket, dev, inode uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.search == nil {
		s.search = &search{dev: dev, inode: inode}
	}
	q := s.search
	if q.ino != 0 {
		s.ino, s.cookie, s.search = q.ino, q.cookie, nil
		return true
	}
	now := time.Now()
	if q.queued || f.closed || now.Before(q.next) {
		return false
	}
	q.queued = true
	f.queue = append(f.queue, q)
	if f.armed == nil {
		f.work.Add(1)
		f.armed = time.AfterFunc(max(0, searchEvery-now.Sub(f.last)), f.read)
	}
	return false
}

// read reads the list once, and notes what was found.
func (f *finder) read() {
	defer f.work.Done()
	f.mu.Lock()
	queue := f.queue
	f.queue = nil
	f.reads++
	f.mu.Unlock()
	found := lookUpSafely(queue)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for i, q := range queue {
		q.queued = false
		if q.ino, q.cookie = found[i].ino, found[i].cookie; q.ino == 0 {
			q.next = now.Add(min(searchEvery<<min(q.vain, 10), maxRest))
			q.vain++
		}
	}
	f.last, f.armed = now, nil
	if len(f.queue) > 0 && !f.closed {
		f.work.Add(1)
		f.armed = time.AfterFunc(searchEvery, f.read)
	}
}

// lookUpSafely is lookUp, which finds nothing when it panics.
func lookUpSafely(queue []*search) (found []diagSocket) {
	defer func() {
		if recover() != nil { // the searches are made again, less and less often
			found = make([]diagSocket, len(queue))
		}
	}()
	faults.Point("unixgram.find")
	return lookUp(queue)
}

// lookUp is what the list has for each of queue.
func lookUp(queue []*search) []diagSocket {
	found := make([]diagSocket, len(queue))
	type file struct{ dev, inode uint32 }
	index := make(map[file]int, len(queue))
	for i, q := range queue {
		index[file{q.dev, q.inode}] = i
	}
	var t table
	if t.start() != nil {
		return found
	}
	defer t.close()
	if !t.ask(nil, showVFS) {
		return found
	}
	e := binary.NativeEndian
	for range maxParts {
		if t.answers(func(head, attrs []byte) {
			v := attr(attrs, attrVFS)
			if len(v) < 8 {
				return
			}
			if i, ok := index[file{e.Uint32(v[4:]), e.Uint32(v)}]; ok {
				found[i].ino = e.Uint32(head[4:])
				copy(found[i].cookie[:], head[8:])
			}
		}) {
			break
		}
	}
	for i, q := range queue { // several may be for one socket
		found[i] = found[index[file{q.dev, q.inode}]]
	}
	return found
}

// close ends the searches and waits for a list that is being read.
func (f *finder) close() {
	f.mu.Lock()
	f.closed, f.queue = true, nil
	if f.armed != nil && f.armed.Stop() {
		f.work.Done()
		f.armed = nil
	}
	f.mu.Unlock()
	f.work.Wait()
}
