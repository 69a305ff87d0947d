// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// tcpFrame describes a TCP frame of a guest.
type tcpFrame struct {
	port     uint16 // of the guest: the connection
	seq, ack uint32
	flags    header.TCPFlags
	window   uint16
	options  string
	payload  string
	tos      uint8
	id       uint16
	pad      int  // bytes behind the packet, as Ethernet has them behind a short one
	more     bool // a fragment
}

const (
	ackFlag    = header.TCPFlagAck
	pshFlag    = header.TCPFlagAck | header.TCPFlagPsh
	timestamps = "\x01\x01\x08\x0a\x00\x00\x00\x01\x00\x00\x00\x02"
	later      = "\x01\x01\x08\x0a\x00\x00\x00\x03\x00\x00\x00\x02"
	selective  = "\x01\x01\x05\x0a\x00\x00\x00\x01\x00\x00\x00\x02"
)

func (x tcpFrame) bytes() []byte {
	hdr := header.TCPMinimumSize + len(x.options)
	f := make([]byte, atTCP+hdr, atTCP+hdr+len(x.payload)+x.pad)
	header.Ethernet(f).Encode(&header.EthernetFields{
		SrcAddr: "\x02\x00\x00\x00\x00\x02", DstAddr: "\x02\x00\x00\x00\x00\x01", Type: header.IPv4ProtocolNumber,
	})
	fields := header.IPv4Fields{
		TOS: x.tos, TotalLength: uint16(header.IPv4MinimumSize + hdr + len(x.payload)), ID: x.id, TTL: 64,
		Protocol: uint8(header.TCPProtocolNumber), Flags: header.IPv4FlagDontFragment,
		SrcAddr: tcpip.AddrFrom4(guestIP.As4()), DstAddr: tcpip.AddrFrom4(aliasIP.As4()),
	}
	if x.more {
		fields.Flags = header.IPv4FlagMoreFragments
	}
	header.IPv4(f[atIP:]).Encode(&fields)
	header.TCP(f[atTCP:]).Encode(&header.TCPFields{
		SrcPort: x.port, DstPort: 80, SeqNum: x.seq, AckNum: x.ack, DataOffset: uint8(hdr), Flags: x.flags, WindowSize: x.window,
	})
	copy(f[atOptions:], x.options)
	f = append(f, x.payload...)
	return f[:len(f)+x.pad]
}

// coalesce passes frames by way of a coalescer and returns what reaches the stack, without Ethernet headers.
func coalesce(c *coalescer, frames [][]byte) (out [][]byte) {
	flush := func() {
		for i := range c.held[:c.n] {
			pkt := c.held[i].packet()
			out = append(out, bytes.Clone(pkt.ToView().AsSlice()))
			pkt.DecRef()
		}
		c.clear()
	}
	for _, f := range frames {
		if c.join(f) {
			continue
		}
		if c.blocks(f) {
			flush()
		}
		if !c.hold(f) {
			out = append(out, bytes.Clone(f[atIP:]))
		}
	}
	flush()
	return out
}

// TestCoalesce is what is joined, and of what is not what TestCoalesceRandom does not make.
func TestCoalesce(t *testing.T) {
	data := tcpFrame{port: 1, seq: 0xfffffffe, ack: 5, flags: ackFlag, window: 9, options: timestamps, payload: "abcd"}
	next := data
	next.seq, next.payload = 2, "efg"
	ack := tcpFrame{port: 1, seq: 2, ack: 5, flags: ackFlag, window: 9, options: timestamps}
	newer := ack
	newer.ack, newer.options, newer.window = 1000, later, 8
	with := func(x tcpFrame, change func(x *tcpFrame)) tcpFrame { change(&x); return x }
	for _, c := range []struct {
		name   string
		first  tcpFrame
		second tcpFrame
		want   int // packets
	}{
		{"data that follows", data, next, 1},
		{"with a push", data, with(next, func(x *tcpFrame) { x.flags = pshFlag }), 1},
		{"after a push", with(data, func(x *tcpFrame) { x.flags = pshFlag }), next, 1},
		{"padded", with(data, func(x *tcpFrame) { x.pad = 3 }), with(next, func(x *tcpFrame) { x.pad = 5 }), 1},
		{"other timestamps", data, with(next, func(x *tcpFrame) { x.options = later }), 2},
		{"no options", data, with(next, func(x *tcpFrame) { x.options = "" }), 2},
		{"congestion experienced", data, with(next, func(x *tcpFrame) { x.tos = 3 }), 2},
		{"a fragment", data, with(next, func(x *tcpFrame) { x.more = true }), 2},
		{"a newer acknowledgement", ack, newer, 1},
		{
			"a newer acknowledgement, padded", with(ack, func(x *tcpFrame) { x.options, x.pad = "", 6 }),
			with(newer, func(x *tcpFrame) { x.options, x.pad = "", 6 }), 1,
		},
		{"a newer acknowledgement across the wrap", with(ack, func(x *tcpFrame) { x.ack = 0xffffff00 }), newer, 1},
		{
			"a selective acknowledgement", with(ack, func(x *tcpFrame) { x.options = selective }),
			with(newer, func(x *tcpFrame) { x.options = selective }), 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second := c.first.bytes(), c.second.bytes()
			out := coalesce(new(coalescer), [][]byte{bytes.Clone(first), bytes.Clone(second)})
			require.Len(t, out, c.want)
			switch {
			case c.want == 2:
				assert.Equal(t, [][]byte{first[atIP:], second[atIP:]}, out, "as they came")
			case c.first.payload == "":
				assert.Equal(t, second[atIP:], out[0], "the newer one")
			default:
				p := header.IPv4(out[0])
				require.True(t, p.IsValid(len(out[0])))
				tcp := header.TCP(p.Payload())
				assert.Equal(t, "abcdefg", string(tcp.Payload()))
				assert.Equal(t, c.first.flags|c.second.flags, tcp.Flags())
				assert.Equal(t, c.first.seq, tcp.SequenceNumber())
			}
		})
	}
}

// TestCoalesceBounds: a packet has no more than IPv4 can say.
func TestCoalesceBounds(t *testing.T) {
	var frames [][]byte
	payload := string(randomBytes(1448))
	for i := range 100 {
		frames = append(frames, tcpFrame{port: 1, seq: uint32(i * 1448), flags: ackFlag, payload: payload}.bytes())
	}
	out := coalesce(new(coalescer), frames)
	require.Len(t, out, 3)
	total := 0
	for _, p := range out {
		require.True(t, header.IPv4(p).IsValid(len(p)))
		total += len(header.TCP(header.IPv4(p).Payload()).Payload())
	}
	assert.Equal(t, 100*1448, total)
}

// An event is what one byte of a connection, or one packet without a payload or with special flags, means to the stack.
type event struct {
	seq, ack uint32
	window   uint16
	flags    header.TCPFlags // without PSH
	options  string
	data     byte
	pure     bool // an acknowledgement and nothing else
}

// eventsOf takes packets apart, by connection.
func eventsOf(t *testing.T, packets [][]byte) map[uint16][]event {
	t.Helper()
	all := map[uint16][]event{}
	for _, p := range packets {
		ip := header.IPv4(p)
		require.True(t, ip.IsValid(len(p)))
		tcp := header.TCP(ip.Payload())
		e := event{
			seq: tcp.SequenceNumber(), ack: tcp.AckNumber(), window: tcp.WindowSize(), flags: tcp.Flags() &^ header.TCPFlagPsh,
			options: string(tcp.Options()),
		}
		port := tcp.SourcePort()
		if len(tcp.Payload()) == 0 {
			e.pure = tcp.Flags() == ackFlag && e.options == timestamps
			all[port] = append(all[port], e)
		}
		for _, b := range tcp.Payload() {
			e.data = b
			all[port] = append(all[port], e)
			e.seq++
		}
	}
	return all
}

// TestCoalesceRandom sends random connections by way of a coalescer. Nothing may differ afterwards but that of successive pure
// acknowledgements some but the last are missing.
func TestCoalesceRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		state := map[uint16]*tcpFrame{}
		var frames, packets [][]byte
		for range 400 {
			port := uint16(1 + r.IntN(1+int(seed)%12))
			s := state[port]
			if s == nil {
				s = &tcpFrame{port: port, seq: r.Uint32(), ack: r.Uint32(), window: 1, options: timestamps}
				state[port] = s
			}
			s.flags, s.payload, s.pad = ackFlag, "", r.IntN(2)*r.IntN(7)
			switch r.IntN(20) {
			case 0:
				s.flags |= header.TCPFlags(1 << r.IntN(8))
			case 1:
				s.seq -= uint32(r.IntN(40))
			case 2:
				s.seq += uint32(r.IntN(40))
			case 3:
				s.window++
			case 4:
				s.ack -= uint32(r.IntN(3))
			}
			if r.IntN(3) > 0 {
				s.payload = fmt.Sprint(r.Uint64())[:1+r.IntN(10)]
			} else {
				s.ack += uint32(r.IntN(3))
			}
			f := s.bytes()
			frames, packets = append(frames, f), append(packets, bytes.Clone(f[atIP:]))
			s.seq += uint32(len(s.payload))
		}
		want, got := eventsOf(t, packets), eventsOf(t, coalesce(new(coalescer), frames))
		for port, events := range want {
			rest := got[port]
			for i, e := range events {
				if len(rest) > 0 && rest[0] == e {
					rest = rest[1:]
					continue
				}
				require.True(t, e.pure && i+1 < len(events) && events[i+1].pure && events[i+1].seq == e.seq &&
					int32(events[i+1].ack-e.ack) > 0, "seed %d: event %d of connection %d got lost: %+v", seed, i, port, e)
			}
			require.Empty(t, rest, "seed %d, connection %d", seed, port)
		}
	}
}
