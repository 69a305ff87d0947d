// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// BenchmarkReadEmpty is what a call costs. The simulator looks at every slot.
func BenchmarkReadEmpty(b *testing.B) {
	for _, slots := range []int{1, 64} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			i := open(b, vmnetsim.Full).start(b)
			r := newReader(b, slots, 1514)
			b.ReportAllocs()
			for b.Loop() {
				_ = i.Read(r)
				r.Batch()
			}
		})
	}
}

// BenchmarkWriteRead sends a batch and reads it at the other end, with the simulator's own work. The metrics are of one
// call each.
func BenchmarkWriteRead(b *testing.B) {
	for _, n := range []int{1, 32, 173} { // 173 full frames are what 256 KiB hold
		for _, size := range []int{64, 1514} {
			b.Run(fmt.Sprintf("batch=%d/size=%d", n, size), func(b *testing.B) {
				s := open(b, vmnetsim.Full)
				x, y := s.start(b), s.start(b)
				w, r := newWriter(b, n), newReader(b, n, 1514)
				var buf []byte
				for k := range n {
					buf = frame.Append(buf, numbered(uint64(k), size))
				}
				var writes, reads time.Duration
				b.ReportAllocs()
				for b.Loop() {
					t0 := time.Now()
					fill(w, frame.NewBatch(buf, n))
					st := x.Write(w)
					w.End()
					t1 := time.Now()
					if st != api.Success || y.Read(r) != api.Success {
						b.Fatal(st)
					}
					got, _ := r.Batch()
					writes += t1.Sub(t0)
					reads += time.Since(t1)
					if got.Len() != n {
						b.Fatal(got.Len())
					}
				}
				b.ReportMetric(float64(writes.Nanoseconds())/float64(b.N), "ns/write")
				b.ReportMetric(float64(reads.Nanoseconds())/float64(b.N), "ns/read")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/frame")
			})
		}
	}
}
