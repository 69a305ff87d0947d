// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// pointer makes an address that C would follow into a pointer.
func pointer(u uint64) unsafe.Pointer {
	p := uintptr(u)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

// args are the arguments of a call behind the first.
func args(call []uintptr) (desc unsafe.Pointer, count *int32) {
	return pointer(uint64(call[1])), (*int32)(pointer(uint64(call[2])))
}

// raw is memory as C sees it.
func raw(p unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// descriptor is the i-th descriptor and its iovec, taken apart by byte offsets.
type descriptor struct{ desc, iov []byte }

func at(p unsafe.Pointer, i int) descriptor {
	d := raw(unsafe.Add(p, 24*i), 24)
	return descriptor{d, raw(pointer(binary.NativeEndian.Uint64(d[8:])), 16)}
}

func (d descriptor) size() uint64   { return binary.NativeEndian.Uint64(d.desc[0:]) }
func (d descriptor) iovcnt() uint32 { return binary.NativeEndian.Uint32(d.desc[16:]) }
func (d descriptor) flags() uint32  { return binary.NativeEndian.Uint32(d.desc[20:]) }
func (d descriptor) base() uint64   { return binary.NativeEndian.Uint64(d.iov[0:]) }
func (d descriptor) room() uint64   { return binary.NativeEndian.Uint64(d.iov[8:]) }
func (d descriptor) data() []byte   { return raw(pointer(d.base()), int(d.room())) }

// put does what the framework does to a descriptor: the packet, its size, and as much damage as it may do.
func (d descriptor) put(packet []byte, size uint64) {
	copy(d.data(), packet)
	binary.NativeEndian.PutUint64(d.desc[0:], size)
	binary.NativeEndian.PutUint32(d.desc[16:], 7)
	binary.NativeEndian.PutUint32(d.desc[20:], 0xff)
	binary.NativeEndian.PutUint64(d.iov[8:], size)
}

// fill plays a vmnet_read of packets with the given sizes.
func fill(r *api.Reader, sizes []uint64) (packets [][]byte) {
	desc, count := args(r.Call(1))
	for i, size := range sizes {
		p := pattern(int(min(size, uint64(len(at(desc, i).data())))), byte(i))
		at(desc, i).put(p, size)
		packets = append(packets, p)
	}
	*count = int32(len(sizes))
	return packets
}

func pattern(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = seed + byte(i*5+i>>8)
	}
	return p
}

// ready checks that all descriptors are as vmnet_read wants them.
func ready(t testing.TB, r *api.Reader, n, maxPacket int) {
	t.Helper()
	desc, count := args(r.Call(1))
	require.Equal(t, int32(n), *count, "count")
	for i := range n {
		d := at(desc, i)
		require.Equal(t, []uint64{uint64(maxPacket), 1, 0, uint64(maxPacket)},
			[]uint64{d.size(), uint64(d.iovcnt()), uint64(d.flags()), d.room()}, "size, iovcnt, flags and iov_len of %d", i)
	}
}

func TestReaderGoldenBytes(t *testing.T) {
	r := api.NewReader(3, 1514)
	desc, count := args(r.Call(1))
	assert.Equal(t, int32(3), *count)

	iov := unsafe.Add(desc, 3*24) // right behind the descriptors
	slots := unsafe.Add(iov, 3*16)
	var want []byte
	for i := range 3 {
		want = binary.NativeEndian.AppendUint64(want, 1514)                                        // vm_pkt_size
		want = binary.NativeEndian.AppendUint64(want, uint64(uintptr(unsafe.Add(iov, 16*i))))      // vm_pkt_iov
		want = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(want, 1), 0)      // vm_pkt_iovcnt, vm_flags
		assert.Equal(t, uint64(uintptr(slots))+uint64(i*1518+4), at(desc, i).base(), "slot %d", i) // prefix in front
	}
	assert.Equal(t, want, raw(desc, 3*24), "descriptors")
	want = nil
	for i := range 3 {
		want = binary.NativeEndian.AppendUint64(want, uint64(uintptr(slots))+uint64(i*1518+4)) // iov_base
		want = binary.NativeEndian.AppendUint64(want, 1514)                                    // iov_len
	}
	assert.Equal(t, want, raw(iov, 3*16), "iovecs")
	assert.Zero(t, uintptr(desc)%8, "alignment")
	assert.Zero(t, uintptr(unsafe.Pointer(count))%8, "alignment")

	packets := fill(r, []uint64{14, 1514, 15})
	b, odd := r.Batch()
	assert.Zero(t, odd)
	assert.Equal(t, 3, b.Len())
	wire := append([]byte{0, 0, 0, 14}, packets[0]...)
	wire = append(append(wire, 0, 0, 0x05, 0xea), packets[1]...)
	wire = append(append(wire, 0, 0, 0, 15), packets[2]...)
	assert.Equal(t, wire, b.Bytes())
	assert.Equal(t, len(wire), cap(b.Bytes()), "an append to the batch must not reach the next slot")
}

// wire is the naive model of Batch.
func wire(sizes []uint64, packets [][]byte, room uint64) string {
	var w []byte
	for i, size := range sizes {
		if size >= frame.MinLen && size <= room {
			w = frame.Append(w, packets[i])
		}
	}
	return string(w)
}

func TestCountOutOfRange(t *testing.T) {
	r := api.NewReader(2, 100)
	for count, want := range map[int32]int{-1: 0, math.MinInt32: 0, 3: 2, math.MaxInt32: 2} {
		fill(r, []uint64{20, 30})
		_, c := args(r.Call(1))
		*c = count
		b, odd := r.Batch()
		assert.Zero(t, odd)
		assert.Equal(t, want, b.Len(), "count %d", count)
		r.Reset()
		ready(t, r, 2, 100)
	}
}

// FuzzBatch compares the batch of a read with the naive model. Every two bytes are a packet's size.
func FuzzBatch(f *testing.F) {
	f.Add([]byte{0, 14, 0, 100, 0, 13, 0, 100, 0, 0, 0, 60}, byte(86))
	f.Add([]byte{0, 255, 1, 0, 255, 255}, byte(200))
	f.Add([]byte{0, 99, 0, 100, 0, 100, 0, 101, 255, 255, 0, 0}, byte(86))
	f.Add(bytes.Repeat([]byte{0, 14}, 32), byte(0))
	f.Add(bytes.Repeat([]byte{0, 114, 0, 113}, 16), byte(100))
	f.Fuzz(func(t *testing.T, in []byte, extra byte) {
		const n = 32
		room := frame.MinLen + int(extra)
		r := api.NewReader(n, room)
		for round := range 2 { // the second on what the first left behind
			var sizes []uint64
			for i := 0; i+1 < len(in) && len(sizes) < n; i += 2 {
				size := uint64(binary.BigEndian.Uint16(in[i:]))
				if size == math.MaxUint16 {
					size = math.MaxUint64
				}
				sizes = append(sizes, size)
			}
			if round == 1 {
				sizes = sizes[len(sizes)/2:]
			}
			packets := fill(r, sizes)
			b, odd := r.Batch()
			want := wire(sizes, packets, uint64(room))
			require.Equal(t, want, string(b.Bytes()))
			require.Equal(t, len(sizes), b.Len()+odd)
			got, used, runts, err := frame.Scan(b.Bytes())
			require.NoError(t, err)
			require.Equal(t, []int{b.Len(), len(want), 0}, []int{got.Len(), used, runts})
			r.Reset()
			ready(t, r, n, room)
		}
	})
}

func TestResetAfterFailedRead(t *testing.T) {
	r := api.NewReader(8, 100)
	fill(r, []uint64{20})
	r.Batch() // few are dirty
	r.Reset()
	fill(r, []uint64{20, 21, 22, 23, 24, 25, 26, 27})
	_, count := args(r.Call(1))
	*count = 0 // it wrote to all of them and then failed: Batch is not called
	r.Reset()
	ready(t, r, 8, 100)
}
