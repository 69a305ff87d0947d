// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// TestNoTwoHolders has clients that come, go, claim, lease and release at random, over saves and restores: no address has two
// holders at any time, and what has one is known to have it.
func TestNoTwoHolders(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testNoTwoHolders(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func testNoTwoHolders(t *testing.T, random *rand.Rand) {
	r := newRig(t, func(n *Network) { n.Strangers = true })
	live := map[int]*client{}
	lastID := 0
	mac := func() string { return fmt.Sprintf("02000000000%d", random.IntN(6)) }
	ip := func() string { return fmt.Sprintf("c0a8690%d", 2+random.IntN(5)) }
	six := func() string { return fmt.Sprintf("2001 0db8 0000 0000 0000 0000 0000 000%d", random.IntN(6)) }
	for range 500 {
		if len(live) < 5 && random.IntN(4) == 0 {
			declared := ""
			if random.IntN(2) == 0 {
				declared = mac()
			}
			c := r.client(t, declared)
			lastID++
			live[lastID] = c
		}
		for id, c := range live {
			own := digits(c.mac().Hardware())
			if own == "" || random.IntN(5) == 0 {
				own = mac()
			}
			switch random.IntN(9) {
			case 0:
				c.sends(says(own, ip()))
			case 1:
				c.sends(arp(own, "0002", own, ip(), ipGW))
			case 2:
				c.sends(ipv6(own, six(), noNext))
			case 3:
				c.sends(toServer(own, ip0, "03"))
				c.gets(fromServer(own, ip(), "05", "3304 00000078"))
			case 4:
				c.sends(toServer(own, ip(), "07"))
			case 5:
				c.gets(fromServer(own, ip0, "06"))
			case 6:
				r.pass(10 * time.Second)
			case 7:
				c.gets(arp("0200000000ee", "0002", "0200000000ee", ip(), ipGW))
			case 8:
				if random.IntN(5) == 0 {
					c.Close()
					delete(live, id)
				}
			}
			requireOneHolder(t, r.Registry, live)
		}
		if random.IntN(50) == 0 {
			r = restarted(t, r, live)
			requireOneHolder(t, r.Registry, live)
		}
	}
}

// restarted is r in the next process, with its clients.
func restarted(t *testing.T, old *rig, live map[int]*client) *rig {
	t.Helper()
	r := newRig(t)
	r.Leased(old.Leases())
	for id, c := range live {
		live[id] = &client{r.Guard(c.declared.Hardware(), r.logger, c.Save()), t}
		before := c
		if before.mac() != 0 { // else the one that it declared may be free now
			require.Equal(t, before.mac(), live[id].mac())
		}
		if own := before.own.Load(); own != nil && old.now() < own.until {
			require.True(t, live[id].holds(own.ip, r.now()))
		}
		require.Len(t, live[id].six, len(before.six))
	}
	return r
}

func requireOneHolder(t *testing.T, r *Registry, live map[int]*client) {
	t.Helper()
	macs, addresses, static := map[watch.MAC]bool{}, map[netip.Addr]bool{}, 0
	for _, c := range live {
		if m := c.mac(); m != 0 {
			require.False(t, macs[m])
			require.Same(t, c.Guard, r.macs[m])
			macs[m] = true
		}
		if own := c.own.Load(); own != nil && r.now() < own.until {
			require.False(t, addresses[own.ip], "%s has two holders", own.ip)
			addresses[own.ip] = true
			if own.leased {
				require.Same(t, own, r.held[own.ip])
				require.Same(t, own, r.leases[c.mac()])
			} else {
				require.Same(t, c.Guard, r.used[own.ip])
				static++
			}
		}
		require.LessOrEqual(t, len(c.six), maxIPv6)
		for _, u := range c.six {
			require.False(t, addresses[u.addr])
			require.Same(t, c.Guard, r.used[u.addr])
			addresses[u.addr] = true
			static++
		}
	}
	require.Len(t, r.macs, len(macs))
	require.Len(t, r.used, static)
}

// TestConcurrent is for the race detector: all clients at once, in both directions.
func TestConcurrent(t *testing.T) {
	r := newRig(t, func(n *Network) { n.Strangers = true })
	var wg sync.WaitGroup
	for i := range 4 {
		own := fmt.Sprintf("02000000000%d", i)
		c := r.client(t, "")
		send := func(f []byte) { c.Filter(frame.NewBatch(frame.Append(nil, f), 1), func(frame.Batch) {}) }
		wg.Go(func() {
			for n := range 500 {
				send(toServer(own, ip0, "03"))
				send(says(own, fmt.Sprintf("c0a8690%d", 2+(n+i)%5)))
				send(ipv6(own, fmt.Sprintf("2001 0db8 0000 0000 0000 0000 0000 000%d", (n+i)%5), noNext))
				send(toServer(own, ipA, "07"))
				c.Drops()
			}
		})
		for range 2 {
			wg.Go(func() {
				for n := range 500 {
					c.gets(fromServer(own, fmt.Sprintf("c0a8690%d", 2+(n+i)%5), "05", hour))
					c.gets(arp("0200000000ee", "0002", "0200000000ee", ipC, ipGW))
				}
			})
		}
	}
	wg.Wait()
}

// batch is n times f, which is made n bytes long.
func batch(frames, size int, f []byte) frame.Batch {
	long := make([]byte, size)
	copy(long, f)
	var wire []byte
	for range frames {
		wire = frame.Append(wire, long)
	}
	return frame.NewBatch(wire, frames)
}

// traffic is frames of all kinds: the packets' lengths are those of their frames.
func traffic(size int) map[string][]byte {
	payload := fmt.Sprintf("%0*d", 2*(size-14-20), 0)
	six := fmt.Sprintf("%0*d", 2*(size-14-40), 0)
	return map[string][]byte{
		"tcp":  ipv4(macA, ipA, "0000", "06", payload),
		"udp":  ipv4(macA, ipA, "0000", "11", "03e8 0035 0008 0000"+payload[16:]),
		"ipv6": ipv6(macA, llA, "06", six),
	}
}

func leasedGuard(tb testing.TB) *Guard {
	r := newRig(tb)
	g := r.Guard(hardware(macA), slog.New(slog.DiscardHandler), nil)
	g.asked.Store(askedKnown | 7)
	g.ToClient(frame.NewBatch(frame.Append(nil, fromServer(macA, ipA, "05", hour)), 1))
	return g
}

// TestNoAllocation: neither what passes nor what is refused costs memory, nor what comes.
func TestNoAllocation(t *testing.T) {
	g := leasedGuard(t)
	var sum int
	pass := func(b frame.Batch) { sum += b.Len() }
	for name, f := range traffic(100) {
		b := batch(8, 100, f)
		assert.Zero(t, testing.AllocsPerRun(100, func() { g.Filter(b, pass) }), name)
	}
	assert.Equal(t, 3*8*101, sum)
	assert.Empty(t, dropArgs(g))
	for name, f := range map[string][]byte{
		"IPv4": says(macA, ipB), "MAC": says(macB, ipA), "ARP": arp(macA, "0002", macA, ipB, ipGW), "IPv6": ipv6(macA, llB, noNext),
	} {
		b := frame.NewBatch(frame.Append(nil, f), 1)
		assert.Zero(t, testing.AllocsPerRun(100, func() { g.Filter(b, pass) }), name)
	}
	ack := frame.NewBatch(frame.Append(nil, fromServer(macB, ipA, "05", hour)), 1)
	assert.Zero(t, testing.AllocsPerRun(100, func() { g.ToClient(ack) }))
}
