// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// batch makes a batch of frames with the given lengths.
func batch(sizes ...int) frame.Batch {
	var buf []byte
	for i, n := range sizes {
		buf = frame.Append(buf, pattern(n, byte(i)))
	}
	return frame.NewBatch(buf, len(sizes))
}

func TestWriterGoldenBytes(t *testing.T) {
	w := api.NewWriter(2)
	b := batch(14, 1514)
	w.Begin(b)
	for it := b.Iter(); it.Next(); {
		require.True(t, w.Add(it.Frame()))
	}
	assert.Equal(t, []int{2, 14 + 1514}, []int{w.Len(), w.Bytes()})

	desc, count := args(w.Call(1))
	assert.Equal(t, int32(2), *count)
	iov := unsafe.Add(desc, 2*24)
	var wantDesc, wantIov []byte
	for i, n := range []uint64{14, 1514} {
		wantDesc = binary.NativeEndian.AppendUint64(wantDesc, n)                                      // vm_pkt_size
		wantDesc = binary.NativeEndian.AppendUint64(wantDesc, uint64(uintptr(unsafe.Add(iov, 16*i)))) // vm_pkt_iov
		wantDesc = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(wantDesc, 1), 0) // vm_pkt_iovcnt, vm_flags
		frameAt := &b.Bytes()[[]int{4, 4 + 14 + 4}[i]]                                                // behind its prefix
		wantIov = binary.NativeEndian.AppendUint64(wantIov, uint64(uintptr(unsafe.Pointer(frameAt)))) // iov_base
		wantIov = binary.NativeEndian.AppendUint64(wantIov, n)                                        // iov_len
	}
	assert.Equal(t, wantDesc, raw(desc, 2*24), "descriptors")
	assert.Equal(t, wantIov, raw(iov, 2*16), "iovecs")

	args := w.Call(0xabc)
	assert.Equal(t, []uintptr{0xabc, uintptr(desc), uintptr(unsafe.Pointer(count))}, args)
}

func TestWriterFillsAgain(t *testing.T) {
	w := api.NewWriter(2)
	b := batch(20, 30, 40)
	w.Begin(b)
	it := b.Iter()
	require.True(t, it.Next() && w.Add(it.Frame()))
	require.True(t, it.Next() && w.Add(it.Frame()))
	require.True(t, it.Next())
	require.False(t, w.Add(it.Frame()), "all in use")
	assert.Equal(t, []int{2, 50}, []int{w.Len(), w.Bytes()}, "what did not fit is not counted")

	desc, count := args(w.Call(1))
	*count = 1              // as a failed call may leave it
	at(desc, 0).put(nil, 9) // and the descriptor
	w.Truncate()
	assert.Zero(t, w.Len()+w.Bytes())
	require.True(t, w.Add(it.Frame()))
	_, count = args(w.Call(1))
	assert.Equal(t, int32(1), *count)
	d := at(desc, 0)
	assert.Equal(t, []uint64{40, 1, 0, 40}, []uint64{d.size(), uint64(d.iovcnt()), uint64(d.flags()), d.room()})
	assert.Equal(t, pattern(40, 2), d.data())

	w.End()
	assert.Zero(t, w.Len()+w.Bytes())
	w.Begin(batch(50))
	assert.Zero(t, w.Len())
}

func TestWriterRefusesForeignFrame(t *testing.T) {
	b := batch(20, 30)
	buf := b.Bytes()
	tests := map[string]struct {
		batch frame.Batch
		frame []byte
	}{
		"another buffer":       {b, pattern(20, 0)},
		"no batch":             {frame.Batch{}, pattern(20, 0)},
		"in front of a batch":  {frame.NewBatch(buf[24:], 1), buf[4:24]},
		"behind a batch":       {frame.NewBatch(buf[:24:24], 1), buf[28:]},
		"reaching out of it":   {frame.NewBatch(buf[:24:24], 1), buf[4:30]},
		"none, after the last": {frame.NewBatch(buf[:24:24], 1), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := api.NewWriter(2)
			w.Begin(tt.batch)
			assert.Panics(t, func() { w.Add(tt.frame) })
			assert.Zero(t, w.Len())
		})
	}
}

// grow makes the goroutine's stack move.
//
//go:noinline
func grow(n int) byte {
	var page [4096]byte
	page[n%len(page)] = byte(n)
	if n == 0 {
		return 0
	}
	return grow(n-1) + page[n%len(page)]
}

// TestAddressesStay has buffers of each kind, and does what would move or reuse them if a descriptor were all that held
// them.
func TestAddressesStay(t *testing.T) {
	fresh := func(t *testing.T, check func(w *api.Writer, sizes int)) {
		done := make(chan struct{})
		go func() { // a goroutine of its own, so that its stack is still small
			defer close(done)
			w := api.NewWriter(1)
			check(w, 64)
			grow(64)
			for range 3 {
				runtime.GC()
				_ = make([]byte, 1<<20)
			}
			desc, _ := args(w.Call(1))
			assert.Equal(t, pattern(60, 9), at(desc, 0).data())
			w.End()
		}()
		<-done
	}
	add := func(w *api.Writer, buf []byte) {
		b := frame.NewBatch(frame.Append(buf[:0], pattern(60, 9)), 1)
		w.Begin(b)
		it := b.Iter()
		it.Next()
		w.Add(it.Frame())
	}
	fresh(t, func(w *api.Writer, _ int) {
		var buf [64]byte
		add(w, buf[:])
	})
	fresh(t, func(w *api.Writer, n int) { add(w, make([]byte, n)) })
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	fresh(t, func(w *api.Writer, n int) { add(w, mem[:n]) })
	require.NoError(t, unix.Munmap(mem))
}
