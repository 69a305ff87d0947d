// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	allFlags  = header.TCPFlagAck | header.TCPFlagPsh | header.TCPFlagFin
	firstSeq  = 0xfffffff0 // wraps
	firstIPID = 0xfffe
)

// largePacket is a packet as the stack hands it to its interface, its payload in views of at most view bytes.
func largePacket(payload []byte, view, mss, options int) *stack.PacketBuffer {
	var b buffer.Buffer
	for rest := payload; len(rest) > 0; {
		n := min(view, len(rest))
		_ = b.Append(buffer.NewViewWithData(rest[:n]))
		rest = rest[n:]
	}
	const spare = 7 // the stack reserves more than it needs
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{ReserveHeaderBytes: maxHeaders + spare, Payload: b})
	pkt.NetworkProtocolNumber = header.IPv4ProtocolNumber
	t := header.TCP(pkt.TransportHeader().Push(header.TCPMinimumSize + options))
	t.Encode(&header.TCPFields{
		SrcPort: 80, DstPort: 4000, SeqNum: firstSeq, AckNum: 77, DataOffset: uint8(header.TCPMinimumSize + options),
		Flags: allFlags, WindowSize: 1000, Checksum: 0x1234,
	})
	for i := range options {
		t[header.TCPMinimumSize+i] = header.TCPOptionNOP
	}
	header.IPv4(pkt.NetworkHeader().Push(header.IPv4MinimumSize)).Encode(&header.IPv4Fields{
		TotalLength: uint16(pkt.Size()), TTL: 64, Protocol: uint8(header.TCPProtocolNumber), ID: firstIPID,
		SrcAddr: tcpip.AddrFrom4(aliasIP.As4()), DstAddr: tcpip.AddrFrom4(guestIP.As4()),
	})
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		Type: header.IPv4ProtocolNumber, SrcAddr: "\x02\x00\x00\x00\x00\x01", DstAddr: "\x02\x00\x00\x00\x00\x02",
	})
	pkt.GSOOptions = stack.GSO{Type: stack.GSOTCPv4, NeedsCsum: true, MSS: uint16(mss)}
	return pkt
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// checkTCPFrame fails the test unless f has right lengths and checksums.
func checkTCPFrame(t *testing.T, f []byte) (header.IPv4, header.TCP) {
	t.Helper()
	ip := header.IPv4(f[frame.MinLen:])
	require.Equal(t, len(f)-frame.MinLen, int(ip.TotalLength()), "length in the IPv4 header")
	assert.True(t, ip.IsChecksumValid(), "checksum of the IPv4 header")
	tcp := header.TCP(ip.Payload())
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, ip.SourceAddress(), ip.DestinationAddress(), uint16(len(tcp)))
	assert.Equal(t, uint16(0xffff), checksum.Checksum(tcp, sum), "TCP checksum")
	return ip, tcp
}

func TestSegments(t *testing.T) {
	for _, c := range []struct{ payload, view, mss, options, frames int }{
		{0, 1, 1448, 12, 1},
		{1, 1, 1448, 12, 1},
		{1448, 4096, 1448, 12, 1},
		{1449, 4096, 1448, 12, 2},
		{65000, 65536, 1448, 12, 45},
		{65000, 1000, 1460, 0, 45},
		{65000, 8948, 8948, 12, 8},
		{65000, 37, 8948, 40, 8},
		{3000, 1, 7, 0, 429},
		{3000, 4096, 0, 0, 1}, // no MSS: nothing to cut
	} {
		t.Run(fmt.Sprintf("%d in %d, MSS %d, options %d", c.payload, c.view, c.mss, c.options), func(t *testing.T) {
			payload := randomBytes(c.payload)
			pkt := largePacket(payload, c.view, c.mss, c.options)
			defer pkt.DecRef()
			var s segments
			s.init(pkt)
			require.Equal(t, c.frames, s.len())
			longest := s.size()
			first := s.len() / 3 // in two parts, as when there is no room
			wire := s.appendTo(nil, first)
			wire = s.appendTo(wire, s.len())
			assert.Zero(t, s.len())
			var got []byte
			n := 0
			for it := frame.NewBatch(wire, c.frames).Iter(); it.Next(); n++ {
				assert.LessOrEqual(t, len(it.Frame()), longest)
				ip, tcp := checkTCPFrame(t, it.Frame())
				assert.Equal(t, uint16(firstIPID+n&0xffff), ip.ID())
				assert.Equal(t, uint32((firstSeq+len(got))&0xffffffff), tcp.SequenceNumber())
				assert.Equal(t, uint32(77), tcp.AckNumber())
				want := allFlags
				if n < c.frames-1 {
					want = header.TCPFlagAck
				}
				assert.Equal(t, want, tcp.Flags())
				got = append(got, tcp.Payload()...)
			}
			assert.Equal(t, c.frames, n)
			assert.Equal(t, payload, append([]byte{}, got...))
		})
	}
}

// TestOutletSegments: a packet that does not fit is sent in part, and the rest is counted, as is a frame that is too long.
func TestOutletSegments(t *testing.T) {
	var d drops
	out := 0
	o := newOutlet(frame.MinLen+defaultMTU, func(b []byte, _ bool) (int, error) { out += countFrames(b); return len(b), nil }, &d)
	o.turn.Lock() // another goroutine is sending
	pkt := largePacket(randomBytes(65000), 65536, 1448, 12)
	defer pkt.DecRef()
	sent := 0
	for d.outFull.Load() == 0 {
		o.putPacket(pkt)
		sent += 45
	}
	assert.Equal(t, sent, countFrames(o.buf)+int(d.outFull.Load()))
	assert.LessOrEqual(t, len(o.buf), outletLimit)
	assert.Greater(t, len(o.buf), outletLimit-2000)
	long := largePacket(randomBytes(3000), 65536, 1461, 0)
	defer long.DecRef()
	o.putPacket(long)
	assert.Equal(t, 3, int(d.malformed.Load()))
	o.turn.Unlock()
	o.drain()
	assert.Equal(t, sent, out+int(d.outFull.Load()))
	assert.False(t, o.next())
	assert.Nil(t, o.buf, "so large a buffer is not kept")
}

// TestSegmentsAllocations: cutting costs nothing once the buffer has its size.
func TestSegmentsAllocations(t *testing.T) {
	pkt := largePacket(randomBytes(65000), 65536, 1448, 12)
	defer pkt.DecRef()
	buf := make([]byte, 0, 1<<17)
	cut := func() {
		var s segments
		s.init(pkt)
		buf = s.appendTo(buf[:0], s.len())
	}
	assert.Eventually(t, func() bool { return testing.AllocsPerRun(100, cut) == 0 }, patience, time.Millisecond) // what others leave behind allocates, too
}
