// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// Hello is what vfkit, and krunkit when told to, send before anything else: no frame, but a client that is there.
const Hello = "VFKT"

// A Receiver receives up to BatchLen datagrams at a time into slots of its own. One goroutine at a time uses it.
//
// It holds some 50 KiB of touched memory, more only while longer frames than Ethernet's come, so an owner that waits gives
// it back: NewReceiver when the socket is readable, Free when Receive says EAGAIN. Both cost a free list's lock.
type Receiver struct {
	slots
	way   receiveWay
	names bool
	n     int // messages of the last Receive
}

// A receiveWay is one way to receive.
type receiveWay interface {
	// receive fills the slots and their sizes and returns how many.
	receive(fd int, s *slots) (int, error)
	// name is the sender's path of message i, nil if it has none or names were not asked for.
	name(i int) []byte
	// sender is the process and user that sent message i, if the system tells.
	sender(i int) (pid int, uid uint32, ok bool)
	// free gives back what the way holds.
	free() error
}

// NewReceiver takes a Receiver from the free list or makes one. With names, Name tells what sent a message. The error is the
// system's when it has no memory.
func NewReceiver(names bool) (*Receiver, error) {
	if r, ok := freeReceivers[names].Get(); ok {
		return r, nil
	}
	return newReceiver(names)
}

// freeReceivers are those that no client uses, with names and without. A mapping of our own cannot fail to be freed; if it does, the
// memory is lost but nothing else.
var freeReceivers = map[bool]*Pool[*Receiver]{true: {Drop: unmap}, false: {Drop: unmap}}

func unmap(r *Receiver) { _ = r.way.free() }

// Free gives r back; it must not be used any more, nor what Msg, Name and Pack returned.
func (r *Receiver) Free() {
	r.n = 0
	freeReceivers[r.names].Put(r)
}

// Receive receives what waits at fd, a datagram socket, up to BatchLen messages, without waiting whatever fd's flags say.
// Less than BatchLen: nothing more was there. An error is the system's bare number, EAGAIN if there was nothing at all.
func (r *Receiver) Receive(fd int) (n int, err error) {
	r.n, err = r.way.receive(fd, &r.slots)
	return r.n, err
}

// Msg is message i of the last Receive without a prefix, valid until the next Receive or until Pack has taken it. long
// says that it was longer than MaxLen and is cut.
func (r *Receiver) Msg(i int) (data []byte, long bool) {
	size := int(r.size[:r.n][i])
	return r.whole(i, min(size, MaxLen)), size > MaxLen
}

// Name is the sender's path of message i as it bound it, nil when it is not bound, valid until the next Receive. An
// abstract name begins with 0. The path may be relative: then it means nothing here.
func (r *Receiver) Name(i int) []byte { return r.way.name(i) }

// Sender is the process and the user that sent message i of the last Receive, where the system tells: on Linux, for a Receiver
// with names on a socket with SO_PASSCRED, about datagrams that were sent since that was set. A process in another PID
// namespace has the number 0.
func (r *Receiver) Sender(i int) (pid int, uid uint32, ok bool) { return r.way.sender(i) }

// Pack makes one batch of messages first to end-1 of the last Receive, borrowed until the next. Messages shorter than a
// frame and those that were cut are left out and counted; vfkit's hello is left out and not counted. The messages are moved
// together, so Msg of them is not valid any more; frames of the full Ethernet length lie together already.
func (r *Receiver) Pack(first, end int) (b frame.Batch, runts, long int) {
	end = min(end, r.n)
	if first >= end {
		return b, 0, 0
	}
	if r.far != nil && int(slices.Max(r.size[first:end])) > r.nearLen {
		return r.pack(first, end, r.far, farStride)
	}
	return r.pack(first, end, r.near, r.stride())
}

// slots is where messages are received: each begins in a near slot, and where near slots are short, what does not fit goes
// to its far slot, at the place where it would be if the whole message was there. Slots have room for the prefix in front.
type slots struct {
	near    []byte // BatchLen slots of PrefixLen + nearLen bytes
	nearLen int
	far     []byte // BatchLen slots of PrefixLen + MaxLen bytes; nil: near slots hold everything

	size [BatchLen]uint32 // bytes of each message; above MaxLen: it was cut
}

// farStride is the distance between two far slots in bytes.
const farStride = frame.PrefixLen + MaxLen

// stride is the distance between two near slots in bytes.
func (s *slots) stride() int { return frame.PrefixLen + s.nearLen }

// whole is message i of n bytes in one piece.
func (s *slots) whole(i, n int) []byte {
	near := s.near[i*s.stride()+frame.PrefixLen:]
	if n <= s.nearLen {
		return near[:n:n]
	}
	far := s.far[i*farStride+frame.PrefixLen:]
	copy(far, near[:s.nearLen])
	return far[:n:n]
}

// dropped counts message i if it is no frame.
func (s *slots) dropped(i int, runts, long *int) bool {
	size := int(s.size[i])
	switch {
	case size > MaxLen:
		*long++
	case size >= frame.MinLen:
		return false
	case size != len(Hello) || string(s.whole(i, size)) != Hello:
		*runts++
	}
	return true
}

// pack packs within the slots at buf, the near ones or the far ones, where there is room for everything. A frame never moves up, so
// what follows is not overwritten.
func (s *slots) pack(first, end int, buf []byte, stride int) (b frame.Batch, runts, long int) {
	buf = buf[first*stride : end*stride]
	at, n := 0, 0
	for i := range end - first {
		if s.dropped(first+i, &runts, &long) {
			continue
		}
		size := int(s.size[first+i])
		data := buf[at+frame.PrefixLen:][:size]
		if size > s.nearLen {
			copy(data[s.nearLen:], buf[i*stride+frame.PrefixLen:][s.nearLen:size])
		}
		if near := s.near[(first+i)*s.stride()+frame.PrefixLen:][:min(size, s.nearLen)]; &near[0] != &data[0] {
			copy(data, near)
		}
		frame.PutPrefix(buf[at:], size)
		at += frame.PrefixLen + size
		n++
	}
	return frame.NewBatch(buf[:at:at], n), runts, long
}

// MapMemory is n bytes outside the garbage-collected heap, which unix.Munmap gives back.
func MapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory for frames: %w", err)
	}
	return mem, nil
}
