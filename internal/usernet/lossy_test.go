// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
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
		{1500, 5, 10, 20},
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
