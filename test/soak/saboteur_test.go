// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"sync"
)

// A saboteur spoils frames on their way from the daemon to the ledger: one of each kind after the other.
type saboteur struct {
	mu    sync.Mutex
	r     *run
	n     int
	kinds []func(s *station, f []byte)
	held  map[*station][]byte
}

func newSaboteur(r *run) *saboteur {
	b := &saboteur{r: r, held: map[*station][]byte{}}
	changed := func(change func(f []byte) []byte) func(*station, []byte) {
		return func(s *station, f []byte) { s.conn.Receive(change(bytes.Clone(f))) }
	}
	b.kinds = []func(s *station, f []byte){
		changed(func(f []byte) []byte { f[len(f)-9] ^= 1; return f }),
		changed(func(f []byte) []byte { return f[:len(f)-7] }),
		func(s *station, f []byte) { s.conn.Receive(f); s.conn.Receive(f) },
		func(s *station, f []byte) { b.held[s] = bytes.Clone(f) },
		func(s *station, f []byte) { // lost, but counted as received
			s.conn.Seen.ReceivedFrames.Add(1)
			s.conn.Seen.ReceivedBytes.Add(uint64(len(f)))
		},
		func(s *station, f []byte) {
			s.conn.Receive(f)
			for _, w := range r.watch.all {
				if other := w.now.Load(); other != nil && other != s {
					other.conn.Receive(f)
					return
				}
			}
		},
	}
	return b
}

func (b *saboteur) spoil(s *station, f []byte) {
	b.mu.Lock() // the ledger takes frames of a connection one by one
	defer b.mu.Unlock()
	mine := len(f) > 60 && f[12] == 0x88 && f[13] == 0xb5 && bytes.Equal(f[:6], s.conn.MAC)
	b.n++
	if mine && b.n > 2000 && b.n%50 == 0 {
		b.kinds[b.n/50%len(b.kinds)](s, f)
		return
	}
	s.conn.Receive(f)
	if late := b.held[s]; late != nil && mine {
		delete(b.held, s)
		s.conn.Receive(late)
	}
}
