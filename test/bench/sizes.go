// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// Above longestStream bytes the daemon sends nothing to a stream client: frame.MaxStreamLen, for the sake of Lima's driver, which
// loses its network on a longer frame.
const (
	longestStream = 32768
	longest       = 65550 // what a guest with TSO sends: 64 KiB and a header
)

// frameSizes are the least frame, a step, an Ethernet frame, two sizes of large MTUs, and the longest of both kinds of sockets.
var frameSizes = []int{64, 256, fullLen, 4096, 9000, longestStream, longest}

// sizedKinds are the transports of sender and receiver whose frame sizes are measured.
var sizedKinds = []string{
	rig.Stream + rig.Stream, rig.Passed + rig.Passed, rig.Unconnected + rig.Unconnected, rig.Connected + rig.Connected,
	rig.Stream + rig.Passed, rig.Passed + rig.Stream,
}

// sizes are flows of frames of each size that the receiver's transport carries; on Linux a datagram is limited by the socket's
// buffer only. The old way knows streams only.
func sizes() part {
	var all []setup
	for _, frame := range frameSizes {
		for _, kinds := range sizedKinds {
			if frame > longestStream && kinds[1:] == rig.Stream {
				continue
			}
			relays := []string{rounds.Floor, rounds.Daemon}
			if kinds == rig.Stream+rig.Stream {
				relays = append(relays, rounds.Old)
			}
			for _, relay := range relays {
				all = append(all, sized(relay, kinds, frame))
			}
		}
	}
	return part{setups: all, rows: []row{
		{key: "small", text: "2 clients, 64 bytes / floor", subject: "daemon ss 64", base: "floor ss 64", most: 1.4},
		{key: "small-passed", text: "the same, passed datagram sockets", subject: "daemon dd 64", base: "floor dd 64", cpu: true},
		{key: "large", text: "2 clients, 32768 bytes / floor", subject: "daemon ss 32768", base: "floor ss 32768"},
		{key: "large-passed", text: "2 passed datagram sockets, 65550 bytes / floor", subject: "daemon dd 65550", base: "floor dd 65550"},
	}}
}

// sized is a flow of frames of one size.
func sized(relay, kinds string, frame int) setup {
	switch {
	case frame == fullLen && kinds == rig.Stream+rig.Stream:
		return flow(seriesSizes, relay, 2, 1, rig.BatchFrames)
	case frame == fullLen:
		return flowOf(seriesSizes, fmt.Sprintf("%s %s batch", relayNames[relay], kinds), relay, kinds, rig.BatchFrames)
	}
	s := flowOf(seriesSizes, fmt.Sprintf("%s %s %d", relayNames[relay], kinds, frame), relay, kinds, rig.BatchFrames)
	s.load = withFrame(s.load, frame)
	return s
}

// withFrame is a load with frames of another length than 1514. As many are in a write and in flight as are about the same number
// of bytes, but not more and not fewer than a few.
func withFrame(l rig.Load, frame int) rig.Load {
	l.Frame = frame
	l.Batch = min(max(rig.BatchFrames*fullLen/frame, 2), rig.BatchFrames)
	l.Window = min(max(windowFrames*fullLen/frame, 8), windowFrames)
	return l
}

// windowFrames of 1514 bytes are in flight.
const windowFrames = 256
