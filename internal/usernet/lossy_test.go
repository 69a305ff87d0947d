// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// badCable loses, repeats and delays frames of both directions, each with the given chance in a thousand.
type badCable struct {
	vnet.Port
	guest                     *ipGuest
	lose, repeat, delay       int
	mu                        sync.Mutex
	random                    *rand.Rand
	late                      [2][][]byte // by direction: frames that others overtake
	lost, repeated, overtaken int
}

func newBadCable(g *ipGuest, seed uint64, lose, repeat, delay int) *badCable {
	c := &badCable{
		Port: g.port, guest: g, lose: lose, repeat: repeat, delay: delay, random: rand.New(rand.NewPCG(seed, 1)),
	}
	g.port = c
	toGuest := func(f []byte) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, x := range c.carry(1, f) {
			select {
			case g.in <- x:
			default:
			}
		}
		return true
	}
	g.tap.Store(&toGuest)
	return c
}

// Send implements vnet.Port.
func (c *badCable) Send(b frame.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var wire []byte
	n := 0
	for it := b.Iter(); it.Next(); {
		for _, f := range c.carry(0, it.Frame()) {
			wire = frame.Append(wire, f)
			n++
		}
	}
	c.Port.Send(frame.NewBatch(wire, n))
}

// carry returns copies of the frames that come out of the cable when f is put in. The caller holds mu.
func (c *badCable) carry(way int, f []byte) (out [][]byte) {
	f = bytes.Clone(f)
	switch p := c.random.IntN(1000); {
	case p < c.lose:
		c.lost++
	case p < c.lose+c.repeat:
		c.repeated++
		out = append(out, f, f)
	case p < c.lose+c.repeat+c.delay && len(c.late[way]) < 8:
		c.overtaken++
		c.late[way] = append(c.late[way], f)
		return nil
	default:
		out = append(out, f)
	}
	if c.random.IntN(4) == 0 { // the late ones come out in any order
		c.random.Shuffle(len(c.late[way]), func(i, j int) { c.late[way][i], c.late[way][j] = c.late[way][j], c.late[way][i] })
		out = append(out, c.late[way]...)
		c.late[way] = nil
	}
	return out
}

// TestTCPBadCable: what is cut for guests and joined from guests arrives whole however bad the cable is.
func TestTCPBadCable(t *testing.T) {
	for _, c := range []struct{ mtu, lose, repeat, delay int }{
		{1500, 5, 0, 0},
		{1500, 0, 20, 0},
		{1500, 0, 0, 50},
		{1500, 5, 10, 20},
		{9000, 5, 10, 50},
		{16384, 3, 10, 50},
	} {
		t.Run(fmt.Sprintf("mtu %d lose %d repeat %d delay %d", c.mtu, c.lose, c.repeat, c.delay), func(t *testing.T) {
			t.Parallel()
			n := start(t, Options{MTU: c.mtu}, tuning{})
			g := newIPGuest(t, n, mac1, guestIP)
			cable := newBadCable(g, uint64(c.mtu), c.lose, c.repeat, c.delay)
			bothWays(t, g, 1<<20)
			cable.mu.Lock()
			defer cable.mu.Unlock()
			assert.NotZero(t, cable.lost+cable.repeated+cable.overtaken)
		})
	}
}

// firstSYNs keeps back the SYNs that a guest's stack repeats: what the first one does not bring about does not come. A busy machine
// may take longer than the second after which it is repeated.
type firstSYNs struct {
	vnet.Port
	mu   sync.Mutex
	seen map[[16]byte]bool // addresses, ports and number
}

func newFirstSYNs(g *ipGuest) {
	g.port = &firstSYNs{Port: g.port, seen: map[[16]byte]bool{}}
}

// Send implements vnet.Port.
func (p *firstSYNs) Send(b frame.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wire []byte
	n := 0
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		if len(f) >= atOptions && f[atProtocol] == uint8(header.TCPProtocolNumber) && opens(header.TCPFlags(f[atFlags])) {
			k := [16]byte(f[atAddress:])
			if p.seen[k] {
				continue
			}
			p.seen[k] = true
		}
		wire = frame.Append(wire, f)
		n++
	}
	p.Port.Send(frame.NewBatch(wire, n))
}

// tinyMSS has a guest ask for short segments: it changes the option in the SYN.
type tinyMSS struct {
	vnet.Port
	mss     uint16
	longest atomic.Int64 // TCP payload that came
}

// Send implements vnet.Port.
func (p *tinyMSS) Send(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		if len(f) > atOptions && f[atProtocol] == uint8(header.TCPProtocolNumber) && opens(header.TCPFlags(f[atFlags])) {
			for o := f[atOptions:]; len(o) >= 4; o = o[1:] {
				if o[0] == header.TCPOptionMSS && o[1] == header.TCPOptionMSSLength {
					binary.BigEndian.PutUint16(o[2:], p.mss)
					break
				}
			}
		}
	}
	p.Port.Send(b)
}

// TestTCPTinyMSS: a guest gets segments as short as it asks for, within reason, and all of the data.
func TestTCPTinyMSS(t *testing.T) {
	for mss, longest := range map[uint16]int64{0: 536, 1: 48, 48: 48, 100: 100, 65535: 1460} {
		t.Run(fmt.Sprint(mss), func(t *testing.T) {
			t.Parallel()
			n := start(t, Options{}, tuning{})
			g := newIPGuest(t, n, mac1, guestIP)
			p := &tinyMSS{Port: g.port, mss: mss}
			g.port = p
			look := func(f []byte) bool {
				if len(f) > atOptions && f[atProtocol] == uint8(header.TCPProtocolNumber) {
					p.longest.Store(max(p.longest.Load(), int64(len(header.TCP(f[atTCP:]).Payload()))))
				}
				return false
			}
			g.tap.Store(&look)
			bothWays(t, g, 20<<10) // more would overrun the guest
			assert.LessOrEqual(t, p.longest.Load(), longest)
		})
	}
}

// TestTCPPausedGuest: nothing gets through to a guest for a while, as when its machine is paused, and for host and guest the
// connection has come to its end meanwhile. The guest gets all of it later.
func TestTCPPausedGuest(t *testing.T) {
	t.Parallel()
	const pause = 10 * time.Second
	n := start(t, Options{}, tuning{})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	g := newIPGuest(t, n, mac1, guestIP)
	guest, host := connect(t, g, netip.AddrPortFrom(aliasIP, hostPort(l)), l)
	require.NoError(t, guest.CloseWrite())
	_, err = io.ReadAll(host)
	require.NoError(t, err)

	began := time.Now()
	look := func([]byte) bool { return time.Since(began) < pause }
	g.tap.Store(&look)
	data := make([]byte, 8<<10) // all of it is sent at once, and the end of the connection with it
	_, err = host.Write(data)
	require.NoError(t, err)
	require.NoError(t, host.Close())
	require.NoError(t, guest.SetReadDeadline(began.Add(time.Minute)))
	got, err := io.ReadAll(guest)
	require.NoError(t, err)
	assert.Len(t, got, len(data))
	assert.Greater(t, time.Since(began), pause, "it was paused")
}
