// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// A seen is a test frame that arrived.
type seen struct {
	src, dst string
	tag      uint32
	n        int // bytes
}

func (s seen) String() string {
	return fmt.Sprintf("{#%d, %d bytes, %x > %x}", s.tag, s.n, s.src, s.dst)
}

// An inbox is a station's sink.
type inbox struct {
	name string
	max  int
	deaf bool
	hold func() // called for each delivery with a test frame in it, if set

	closed atomic.Bool // nothing may come any more

	mu  sync.Mutex
	got []seen
	bad []string // broken rules
}

// tags number the frames of the process.
var tags atomic.Uint32

// testFrame makes a frame of n bytes that no other is like, if there is room for its tag.
func testFrame(dst, src net.HardwareAddr, n int) []byte { return taggedFrame(dst, src, tags.Add(1), n) }

// taggedFrame makes a frame of n bytes whose content follows from tag: 4 bytes of it, if there is room, and a pattern.
func taggedFrame(dst, src net.HardwareAddr, tag uint32, n int) []byte {
	f := make([]byte, n)
	copy(f, dst)
	copy(f[6:], src)
	binary.BigEndian.PutUint16(f[12:], fakeguest.TypeTest)
	body := f[14:]
	if len(body) >= 4 {
		binary.BigEndian.PutUint32(body, tag)
		body = body[4:]
	} else {
		tag = 0
	}
	for i := range body {
		body[i] = byte(uint32(i)*7 + uint32(i)>>8 + tag*31)
	}
	return f
}

// parseTest reads a test frame; ok is false for others.
func parseTest(f []byte) (s seen, ok bool) {
	if len(f) < 14 || binary.BigEndian.Uint16(f[12:]) != fakeguest.TypeTest || !bytes.HasPrefix(f[6:], []byte(stationPrefix)) {
		return s, false
	}
	s = seen{src: string(f[6:12]), dst: string(f[:6]), n: len(f)}
	if len(f) >= 18 {
		s.tag = binary.BigEndian.Uint32(f[14:])
	}
	return s, true
}

// Deliver implements frame.Sink.
func (in *inbox) Deliver(b frame.Batch) {
	if in.closed.Load() {
		in.complain("a delivery after Close returned")
		return
	}
	var got []seen
	count, end := 0, 0
	for it := b.Iter(); it.Next(); count, end = count+1, it.End() {
		f := it.Frame()
		if len(f) < frame.MinLen || len(f) > in.max {
			in.complain("a frame of %d bytes for a sink that takes %d to %d", len(f), frame.MinLen, in.max)
			continue
		}
		if f[0] == poison && bytes.Count(f[:14], f[:1]) == 14 {
			in.complain("a frame from a batch that was given back")
		}
		s, ok := parseTest(f)
		if !ok {
			continue
		}
		if !bytes.Equal(f, taggedFrame(net.HardwareAddr(s.dst), net.HardwareAddr(s.src), s.tag, s.n)) {
			in.complain("frame %v is damaged", s)
		}
		got = append(got, s)
	}
	if count != b.Len() || end != len(b.Bytes()) {
		in.complain("a batch of %d bytes tells %d frames, but holds %d in %d bytes", len(b.Bytes()), b.Len(), count, end)
	}
	if len(got) > 0 && in.hold != nil {
		in.hold()
	}
	if in.deaf {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = append(in.got, got...)
}

// MaxFrame implements frame.Sink.
func (in *inbox) MaxFrame() int { return in.max }

// complain notes a broken rule, the first few only.
func (in *inbox) complain(format string, args ...any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.bad) < 5 {
		in.bad = append(in.bad, fmt.Sprintf(format, args...))
	}
}

// broken reports whether a rule was broken.
func (in *inbox) broken() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.bad) > 0
}

// count is how many test frames have come since the last take.
func (in *inbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.got)
}

// take returns the test frames that came since the last call, nil for none.
func (in *inbox) take() []seen {
	in.mu.Lock()
	defer in.mu.Unlock()
	got := in.got
	in.got = nil
	return got
}
