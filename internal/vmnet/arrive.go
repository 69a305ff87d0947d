// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"encoding/binary"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// arrive delivers b, which came from vmnet by l and in which no frame is longer than longest bytes, and learns from it.
func (s *switcher) arrive(l *line, b frame.Batch, longest int) {
	sv := l.sieve.Load()
	var lastSrc, lastDst uint64
	buf, start, frames := b.Bytes(), 0, 0
	deliver := func(end int) {
		if frames > 0 {
			s.port.deliver(frame.NewBatch(buf[start:end:end], frames), longest)
		}
		frames = 0
	}
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		if sv != nil && !sv.keep(f) {
			deliver(it.Offset())
			start = it.End()
			continue
		}
		if s.lo.isMarker(f) {
			deliver(it.Offset()) // first: the marker says that it has been
			start = it.End()
			s.lo.arrived(f, s, l)
			continue
		}
		dst := binary.BigEndian.Uint64(f) >> 16
		src := binary.BigEndian.Uint64(f[6:]) >> 16
		if src != lastSrc || dst != lastDst {
			lastSrc, lastDst = src, dst
			s.look(src, dst)
		}
		frames++
	}
	deliver(len(buf))
}

// look forgets where src is if a frame from it to dst, which has come from vmnet, shows that it is somewhere else now:
//
//   - the frame came to the very client that is said to have the address: vmnet takes to nobody what he sent himself; or
//   - it is unicast between two clients, for which vmnet's way has not been taken for long.
func (s *switcher) look(src, dst uint64) {
	p := s.lo.find(src)
	if p == nil {
		return
	}
	if p.port.Load() != s {
		if isGroup(dst) {
			return
		}
		to := s.lo.find(dst)
		if to == nil || to.port.Load() != s || s.lo.now()-to.at < 2*transit {
			return
		}
	}
	s.lo.forget(p)
}
