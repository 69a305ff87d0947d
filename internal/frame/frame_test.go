// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// arp is an unpadded ARP request as QEMU sends it: 42 bytes, less than Ethernet's minimum on a cable.
var arp = []byte{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // destination
	0x52, 0x54, 0x00, 0x00, 0x00, 0x11, // source
	0x08, 0x06, // type ARP
	0x00, 0x01, // hardware Ethernet
	0x08, 0x00, // protocol IPv4
	0x06, 0x04, // address lengths
	0x00, 0x01, // request
	0x52, 0x54, 0x00, 0x00, 0x00, 0x11, // sender MAC
	192, 168, 105, 2, // sender IP
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // target MAC
	192, 168, 105, 1, // target IP
}

// header is the shortest legal frame: an Ethernet header and nothing behind it.
var header = []byte{
	0x52, 0x54, 0x00, 0x00, 0x00, 0x12, // destination
	0x52, 0x54, 0x00, 0x00, 0x00, 0x11, // source
	0x88, 0xb5, // type for experiments
}

// pattern makes a frame of n bytes whose content tells length and position, so that a shifted or cut copy differs.
func pattern(n int) []byte {
	f := make([]byte, n)
	for i := range f {
		f[i] = byte(i*7 + n + i>>8)
	}
	return f
}

// prefix makes the four bytes that announce n.
func prefix(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// parsed is what a reader makes of a stream.
type parsed struct {
	frames [][]byte
	runts  int
	left   []byte // not yet a whole frame
	err    error
}

// drain scans buf the way a link does: until nothing more can be used.
func drain(p *parsed, buf []byte) {
	for {
		b, used, runts, err := frame.Scan(buf)
		p.runts += runts
		for it := b.Iter(); it.Next(); {
			p.frames = append(p.frames, bytes.Clone(it.Frame()))
		}
		if buf = buf[used:]; used == 0 || err != nil {
			p.left, p.err = buf, err
			return
		}
	}
}

// feed reads a stream that arrives in the given chunks, keeping an incomplete frame at the head of the buffer as a link
// does, and stops at the first error.
func feed(chunks ...[]byte) (p parsed) {
	for _, c := range chunks {
		if drain(&p, append(bytes.Clone(p.left), c...)); p.err != nil {
			return p
		}
	}
	return p
}

func TestGoldenBytes(t *testing.T) {
	wire := []byte{
		0x00, 0x00, 0x00, 0x2a, // length 42, most significant byte first
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0x00, 0x00, 0x00, 0x11, 0x08, 0x06, // Ethernet header
		0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, // ARP, fixed part
		0x52, 0x54, 0x00, 0x00, 0x00, 0x11, 0xc0, 0xa8, 0x69, 0x02, // sender
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0xa8, 0x69, 0x01, // target
		0x00, 0x00, 0x00, 0x0e, // length 14: the next frame follows without a gap
		0x52, 0x54, 0x00, 0x00, 0x00, 0x12, 0x52, 0x54, 0x00, 0x00, 0x00, 0x11, 0x88, 0xb5,
	}
	assert.Equal(t, wire, frame.Append(frame.Append(nil, arp), header), "Append")

	b, used, runts, err := frame.Scan(wire)
	require.NoError(t, err)
	assert.Equal(t, len(wire), used)
	assert.Zero(t, runts)
	assert.Equal(t, 2, b.Len())
	assert.Equal(t, len(arp)+len(header), b.DataLen())
	assert.Equal(t, wire, b.Bytes())
	assert.Same(t, &wire[0], &b.Bytes()[0], "the batch points into the read buffer")

	it := b.Iter()
	require.True(t, it.Next())
	assert.Equal(t, arp, it.Frame())
	assert.Equal(t, 0, it.Offset())
	assert.Equal(t, 4+42, it.End())
	assert.Equal(t, len(it.Frame()), cap(it.Frame()), "an append to a frame must not reach the next one")
	require.True(t, it.Next())
	assert.Equal(t, header, it.Frame())
	assert.Equal(t, 4+42, it.Offset())
	assert.Equal(t, len(wire), it.End())
	require.False(t, it.Next())
	require.False(t, it.Next(), "the end stays the end")
}

func TestLengths(t *testing.T) {
	assert.Equal(t, []int{14, 1514, 32768, 69632}, []int{frame.MinLen, frame.MaxEthernetLen, frame.MaxStreamLen, frame.MaxLen})
	tests := []struct {
		name    string
		length  uint32
		body    int // bytes present behind the prefix
		frames  int
		runts   int
		tooLong bool
	}{
		{name: "13 is a runt", length: 13, body: 13, runts: 1},
		{name: "14 is the shortest", length: 14, body: 14, frames: 1},
		{name: "32768", length: frame.MaxStreamLen, body: frame.MaxStreamLen, frames: 1},
		{name: "69632 is the longest", length: 69632, body: 69632, frames: 1},
		{name: "69632 of which nothing arrived", length: 69632},
		{name: "69633", length: 69633, body: 69633, tooLong: true},
		{name: "all ones", length: 0xffffffff, body: 64, tooLong: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := append(prefix(tt.length), pattern(tt.body)...)
			p := feed(in)
			if tt.tooLong {
				assert.ErrorIs(t, p.err, frame.ErrTooLong)
			} else {
				assert.NoError(t, p.err)
			}
			assert.Len(t, p.frames, tt.frames)
			assert.Equal(t, tt.runts, p.runts)
			if tt.frames == 1 {
				assert.True(t, bytes.Equal(pattern(tt.body), p.frames[0]), "content")
			}
			if tt.frames+tt.runts == 0 {
				assert.Equal(t, in, p.left, "nothing is used")
			} else {
				assert.Empty(t, p.left)
			}

			// The same behind a good frame: that one is handed out first, whatever follows.
			p = feed(append(frame.Append(nil, arp), in...))
			require.Len(t, p.frames, 1+tt.frames)
			assert.Equal(t, arp, p.frames[0])
			assert.Equal(t, tt.tooLong, p.err != nil)
		})
	}
}

func TestScanStepByStep(t *testing.T) {
	runt := append(prefix(5), 1, 2, 3, 4, 5)
	buf := append(bytes.Clone(runt), runt...)
	buf = frame.Append(buf, arp)
	buf = frame.Append(buf, header)
	buf = append(buf, runt...)
	buf = frame.Append(buf, header)
	buf = append(buf, prefix(frame.MaxLen+1)...)
	type step struct{ used, runts, frames int }
	steps := []step{
		{used: 2*len(runt) + 4 + len(arp) + 4 + len(header), runts: 2, frames: 2}, // up to the next runt
		{used: len(runt) + 4 + len(header), runts: 1, frames: 1},                  // up to the bad length
	}
	for i, want := range steps {
		b, used, runts, err := frame.Scan(buf)
		require.NoError(t, err)
		assert.Equal(t, want, step{used, runts, b.Len()}, "step %d", i)
		assert.Equal(t, len(b.Bytes()), cap(b.Bytes()), "an append to a batch must not reach what follows it")
		buf = buf[used:]
	}
	b, used, runts, err := frame.Scan(buf)
	require.ErrorIs(t, err, frame.ErrTooLong)
	assert.Zero(t, used+runts+b.Len())
}

// mixed is a stream with everything legal in it, and what it holds.
func mixed() (stream []byte, frames [][]byte, runts int) {
	for _, n := range []int{14, 0, 42, 13, 1, 60, 1514, 0, 0, 15, 2048, 14} {
		f := pattern(n)
		if stream = append(append(stream, prefix(uint32(n))...), f...); n < frame.MinLen {
			runts++
			continue
		}
		frames = append(frames, f)
	}
	return stream, frames, runts
}

func TestEverySplit(t *testing.T) {
	stream, frames, runts := mixed()
	for cut := range len(stream) + 1 {
		p := feed(stream[:cut], stream[cut:])
		require.NoError(t, p.err, "cut at %d", cut)
		require.Equal(t, frames, p.frames, "cut at %d", cut)
		require.Equal(t, runts, p.runts, "cut at %d", cut)
		require.Empty(t, p.left, "cut at %d", cut)
	}
}

// TestRuns keeps frames by a pattern and gets those, in runs as long as they can be.
func TestRuns(t *testing.T) {
	for _, pattern := range []string{"", "+", "-", "++-+", "-++--+-", "+-+-+", "--", "+++"} {
		var buf []byte
		for i, c := range []byte(pattern) {
			f := make([]byte, frame.MinLen+i)
			f[0], f[1] = c, byte(i)
			buf = frame.Append(buf, f)
		}
		b := frame.NewBatch(buf, len(pattern))
		got := bytes.Repeat([]byte{'-'}, len(pattern))
		runs := 0
		keep := func(f []byte) bool { return f[0] == '+' }
		b.Runs(keep, func(run frame.Batch) {
			runs++
			n := 0
			for it := run.Iter(); it.Next(); n++ {
				got[it.Frame()[1]] = '+'
			}
			assert.Equal(t, run.Len(), n)
			assert.Equal(t, len(run.Bytes()), cap(run.Bytes()))
		})
		assert.Equal(t, pattern, string(got))
		assert.Equal(t, len(strings.Fields(strings.ReplaceAll(pattern, "-", " "))), runs, pattern)
		frames := 0
		assert.Zero(t, testing.AllocsPerRun(10, func() { b.Runs(keep, func(run frame.Batch) { frames += run.Len() }) }))
	}
}

func TestEmptyAndCutBatches(t *testing.T) {
	var b frame.Batch
	assert.Zero(t, b.Len())
	assert.Zero(t, b.DataLen())
	assert.Empty(t, b.Bytes())
	it := b.Iter()
	assert.False(t, it.Next())
	var zero frame.Iter
	assert.False(t, zero.Next())
	cut := frame.NewBatch(append(frame.Append(nil, header), 0, 0, 0, 2, 1), 2).Iter()
	assert.True(t, cut.Next())
	assert.False(t, cut.Next(), "less than it announces, which no caller may pass")
	_, used, runts, err := frame.Scan(nil)
	assert.Zero(t, used+runts)
	assert.NoError(t, err)
}

func TestPutPrefix(t *testing.T) {
	slot := []byte{0xee, 0xee, 0xee, 0xee, 0xaa}
	frame.PutPrefix(slot, 69632)
	assert.Equal(t, []byte{0x00, 0x01, 0x10, 0x00, 0xaa}, slot)
}

func TestHeadWithinAndAfter(t *testing.T) {
	buf := slices.Clip(frame.Append(frame.Append(nil, make([]byte, 14)), make([]byte, 20)))
	b := frame.NewBatch(buf, 2)
	for n, end := range []int{0, 18, 42, 42} {
		for name, head := range map[string]frame.Batch{"Head": b.Head(n), "Within": b.Within(end), "Within more": b.Within(end + 17)} {
			assert.Equal(t, min(n, 2), head.Len(), name)
			assert.Equal(t, buf[:end], head.Bytes(), name)
			assert.Equal(t, end, cap(head.Bytes()), "an append does not reach the next frame")
		}
		assert.Equal(t, 2-min(n, 2), b.After(n).Len())
		assert.Equal(t, string(buf[end:]), string(b.After(n).Bytes()))
	}
	assert.Zero(t, b.Within(-1).Len())
}
