// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// dropArgs are g's refused frames as the log has them.
func dropArgs(g *Guard) []any {
	_, args := g.Drops()
	return args
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a registry on 192.168.105.0/24 with a clock that stands.
type rig struct {
	*Registry
	clock   atomic.Int64
	log     bytes.Buffer
	logger  *slog.Logger // one for all, which keeps lines of several clients apart
	changes atomic.Int32
}

func (r *rig) pass(d time.Duration) { r.clock.Add(int64(d)) }

func newRig(_ testing.TB, mods ...func(*Network)) *rig {
	r := &rig{}
	r.logger = slog.New(slog.NewTextHandler(&r.log, nil))
	r.clock.Store(int64(time.Hour))
	r.Registry = New(func() { r.changes.Add(1) })
	r.now = func() time.Duration { return time.Duration(r.clock.Load()) }
	n := Network{
		Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
		GatewayMAC: hardware(macGW), Reserved: []netip.Addr{netip.MustParseAddr("192.168.105.254")},
	}
	for _, m := range mods {
		m(&n)
	}
	r.Describe(n)
	return r
}

func hardware(m string) net.HardwareAddr { return raw(m) }

// client is a guard and what it let pass.
type client struct {
	*Guard
	t *testing.T
}

func (r *rig) client(t *testing.T, declared string) *client {
	t.Helper()
	var mac net.HardwareAddr
	if declared != "" {
		mac = hardware(declared)
	}
	return &client{r.Guard(mac, r.logger, nil), t}
}

// sends reports whether f passes.
func (c *client) sends(f []byte) bool {
	c.t.Helper()
	var got []byte
	c.Filter(frame.NewBatch(frame.Append(nil, f), 1), func(b frame.Batch) {
		require.Equal(c.t, 1, b.Len())
		got = bytes.Clone(b.Bytes())
	})
	if got != nil {
		require.Equal(c.t, frame.Append(nil, f), got)
	}
	return got != nil
}

// refused fails unless f, the first frame that may be, is refused for the reason want, which is empty if it passes.
func (c *client) refused(r *rig, f []byte, want string) {
	c.t.Helper()
	assert.Equal(c.t, want == "", c.sends(f))
	if want == "" {
		assert.Empty(c.t, dropArgs(c.Guard))
		assert.Empty(c.t, r.log.String())
		return
	}
	assert.Equal(c.t, []any{"drop_spoofed", uint64(1), want, uint64(1)}, dropArgs(c.Guard))
	assert.Contains(c.t, r.log.String(), "forged")
}

// gets shows f on its way to the client.
func (c *client) gets(f []byte) { c.ToClient(frame.NewBatch(frame.Append(nil, f), 1)) }

// lease lets the client have ip by DHCP.
func (c *client) lease(mac, ip string) {
	c.t.Helper()
	require.True(c.t, c.sends(toServer(mac, ip0, "03")))
	c.gets(fromServer(mac, ip, "05", hour))
}

// says is an echo request from ip, talks reports whether it passes.
func says(mac, ip string) []byte { return ipv4(mac, ip, "0000", "01", "0800 0000 0001 0001") }

func (c *client) talks(mac, ip string) bool { return c.sends(says(mac, ip)) }

// TestFrames: each frame of a client that has leased ipA and holds macA, and why it is refused, empty if it is not.
func TestFrames(t *testing.T) {
	icmp, tcp := "0800 0000 0001 0001", "1f90 0050 00000001 00000000 5002 ffff 0000 0000"
	discover := dhcpMessage("01", "00000001", ip0, ip0, ip0, macA, "350101")
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"IPv4", ipv4(macA, ipA, "0000", "06", tcp), ""},
		{"IPv4, padded", append(ipv4(macA, ipA, "0000", "01", icmp), make([]byte, 18)...), ""},
		{"IPv4 of another", ipv4(macA, ipB, "0000", "06", tcp), "spoofed_ipv4"},
		{"IPv4 of the gateway", ipv4(macA, ipGW, "0000", "01", icmp), "spoofed_ipv4"},
		{"IPv4 from nowhere", ipv4(macA, ip0, "0000", "01", icmp), "spoofed_ipv4"},
		{"IGMP without an address", ipv4(macA, ip0, "0000", "02", "2200 f9fd 0000 0000"), ""},
		{"MAC of another", ipv4(macB, ipA, "0000", "01", icmp), "spoofed_mac"},

		{"IPv4 of version 6", raw(macGW, macA, "0800 65 00 0014 0000 0000 40 01 0000", ipA, ipGW), "spoofed_malformed"},
		{"IPv4 header cut", raw(macGW, macA, "0800 45 00 0014 0000 0000 40 01 0000", ipA, "c0a869"), "spoofed_malformed"},
		{"IPv4 header short", raw(macGW, macA, "0800 44 00 0014 0000 0000 40 01 0000", ipA, ipGW), "spoofed_malformed"},
		{"IPv4 options", raw(macGW, macA, "0800 46 00 0018 0000 0000 40 01 0000", ipA, ipGW, "01010100"), ""},
		{"IPv4 length above the frame", raw(macGW, macA, "0800 45 00 0015 0000 0000 40 01 0000", ipA, ipGW), "spoofed_malformed"},
		{"IPv4 length below the header", raw(macGW, macA, "0800 45 00 0013 0000 0000 40 01 0000", ipA, ipGW), "spoofed_malformed"},
		{"first fragment", ipv4(macA, ipA, "2000", "11", udp(1000, 53, "0001")), ""},
		{"first fragment of a server's message", ipv4(macA, ipA, "2000", "11", udp(67, 1000, "00")), "spoofed_dhcp"},
		{"further fragment", ipv4(macA, ipA, "2001", "11", "0043 0044 0000 0000"), ""},
		{"further fragment of another", ipv4(macA, ipB, "2001", "11", "0043 0044 0000 0000"), "spoofed_ipv4"},

		{"UDP", ipv4(macA, ipA, "0000", "11", udp(1000, 53)), ""},
		{"UDP cut", ipv4(macA, ipA, "0000", "11", "03e8 0035 0008"), "spoofed_malformed"},
		{"DHCP server", ipv4(macA, ipA, "0000", "11", udp(67, 68, dhcpMessage("02", "00000001", ip0, ipB, ip0, macB, "350105"))), "spoofed_dhcp"},
		{"DHCP server from another port", ipv4(macA, ipA, "0000", "11", udp(1000, 68)), "spoofed_dhcp"},
		{"DHCP server behind IPv4 options", raw(macGW, macA, "0800 46 00 0020 0000 0000 40 11 0000", ipA, ipGW, "01010100", udp(67, 68)), "spoofed_dhcp"},
		{"DISCOVER", ipv4(macA, ip0, "0000", "11", udp(68, 67, discover)), ""},
		{"DISCOVER with an address", ipv4(macA, ipA, "0000", "11", udp(68, 67, discover)), ""},
		{"DISCOVER from another's address", ipv4(macA, ipB, "0000", "11", udp(68, 67, discover)), "spoofed_ipv4"},
		{"DISCOVER, fragmented", ipv4(macA, ip0, "2000", "11", udp(68, 67, discover)), "spoofed_malformed"},
		{"DISCOVER cut", ipv4(macA, ip0, "0000", "11", udp(68, 67, "0101 0600")), "spoofed_malformed"},
		{"DHCP for another", ipv4(macA, ip0, "0000", "11", udp(68, 67, dhcpMessage("01", "00000001", ip0, ip0, ip0, macB, "350101"))), "spoofed_dhcp"},
		{"DHCP relay", ipv4(macA, ipA, "0000", "11", udp(68, 67, dhcpMessage("01", "00000001", ip0, ip0, ipA, macA, "350101"))), "spoofed_dhcp"},
		{"DHCP reply to a server", ipv4(macA, ipA, "0000", "11", udp(68, 67, dhcpMessage("02", "00000001", ip0, ipB, ip0, macA, "350105"))), "spoofed_dhcp"},
		{"ACK as a request", ipv4(macA, ipA, "0000", "11", udp(68, 67, dhcpMessage("01", "00000001", ip0, ipB, ip0, macA, "350105"))), "spoofed_dhcp"},

		{"ARP request", arp(macA, "0001", macA, ipA, ipGW), ""},
		{"ARP reply", arp(macA, "0002", macA, ipA, ipGW), ""},
		{"ARP probe", arp(macA, "0001", macA, ip0, ipB), ""},
		{"ARP reply from nowhere", arp(macA, "0002", macA, ip0, ipGW), "spoofed_arp"},
		{"ARP for another's address", arp(macA, "0002", macA, ipB, ipGW), "spoofed_arp"},
		{"ARP for another's MAC", arp(macA, "0002", macB, ipA, ipGW), "spoofed_arp"},
		{"ARP from another's MAC", arp(macB, "0002", macA, ipA, ipGW), "spoofed_mac"},
		{"ARP cut", arp(macA, "0001", macA, ipA, ipGW)[:41], "spoofed_malformed"},
		{"ARP for other hardware", raw(all, macA, "0806 0006 0800 06 04 0002", macA, ipB, none, ipGW), "spoofed_malformed"},
		{"ARP, inverse", arp(macA, "0008", macA, ipA, ipGW), "spoofed_malformed"},

		{"VLAN tag", raw(all, macA, "8100 0000 0800"), "spoofed_tag"},
		{"two VLAN tags", raw(all, macA, "88a8 0001 8100 0002 0806"), "spoofed_tag"},
		{"VLAN tag of old", raw(all, macA, "9100 0000 0800"), "spoofed_tag"},
		{"a frame in a frame", raw(all, macA, "88e7 00000000", all, macB, "0800"), "spoofed_tag"},
		{"SNAP", raw(all, macA, "0020 aaaa03 000000 0806"), "spoofed_tag"},
		{"spanning tree", raw("0180c2000000", macA, "0026 424203 0000"), ""},
		{"LLDP", raw("0180c200000e", macA, "88cc 0207"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			c := r.client(t, "")
			c.lease(macA, ipA)
			require.True(t, c.talks(macA, ipA))
			c.refused(r, tt.frame, tt.want)
			assert.True(t, c.talks(macA, ipA), "it goes on")
		})
	}
}

func TestMACs(t *testing.T) {
	lldp := func(mac string) []byte { return raw("0180c200000e", mac, "88cc") }
	t.Run("first seen", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(t, ""), r.client(t, "")
		for _, mac := range []string{macGW, none, all, "010000000001"} {
			assert.False(t, a.sends(lldp(mac)), mac)
		}
		assert.True(t, a.sends(lldp(macA)))
		assert.False(t, a.sends(lldp(macB)))
		assert.False(t, b.sends(lldp(macA)), "it is a's")
		assert.True(t, b.sends(lldp(macB)))
		a.Close()
		c := r.client(t, "")
		assert.True(t, c.sends(lldp(macA)), "a has gone")
		assert.Equal(t, "spoofed_mac1", fmt.Sprint(dropArgs(b.Guard)[2:]...))
	})
	t.Run("declared", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(t, macA), r.client(t, "")
		assert.False(t, b.sends(lldp(macA)), "a has not sent yet, but declared it")
		assert.False(t, a.sends(lldp(macB)))
		assert.True(t, a.sends(lldp(macA)))
		assert.True(t, b.sends(lldp(macB)))
	})
	t.Run("declared, but another's", func(t *testing.T) {
		r := newRig(t)
		a := r.client(t, "")
		require.True(t, a.sends(lldp(macA)))
		b := r.client(t, macA)
		assert.False(t, b.sends(lldp(macA)))
		assert.False(t, b.sends(lldp(macB)), "it did not declare that")
		a.Close()
		assert.True(t, b.sends(lldp(macA)))
	})
}

// TestLease: an address comes from the gateway's ACK to the client's own request, and from nothing else.
func TestLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		ack  []byte
		want bool
	}{
		{"ACK", fromServer(macA, ipA, "05", hour), true},
		{"ACK without an end", fromServer(macA, ipA, "05"), true},
		{"OFFER", fromServer(macA, ipA, "02", hour), false},
		{"NAK", fromServer(macA, ipA, "06"), false},
		{"ACK for another", fromServer(macB, ipA, "05", hour), false},
		{"ACK in another transaction", reply(macGW, ipGW, "00000008", macA, ipA, "05", hour), false},
		{"ACK of another server", reply(macGW, ipB, "00000007", macA, ipA, "05", hour), false},
		{"ACK from another MAC", reply(macB, ipGW, "00000007", macA, ipA, "05", hour), false},
		{"ACK of the gateway's address", fromServer(macA, ipGW, "05", hour), false},
		{"ACK of an address that is reserved", fromServer(macA, ipHost, "05", hour), false},
		{"ACK of another subnet", fromServer(macA, "0a000002", "05", hour), false},
		{"ACK without an address", fromServer(macA, ip0, "05"), false},
		{"ACK cut", fromServer(macA, ipA, "05", hour)[:200], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			c, holder := r.client(t, ""), r.client(t, "")
			require.True(t, c.sends(toServer(macA, ip0, "03")))
			c.gets(tt.ack)
			// Without a lease the client could still take the address as a static one, if it were free.
			assert.Equal(t, !tt.want, holder.talks(macB, ipA))
			assert.Equal(t, tt.want, c.talks(macA, ipA))
		})
	}
	t.Run("not asked for", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, macA), r.client(t, macB)
		c.gets(fromServer(macA, ipA, "05", hour))
		assert.True(t, other.talks(macB, ipA), "it is free")
	})
}

// TestLeaseEnds: by its time, by RELEASE, DECLINE and NAK; then others may have the address, and the client that had it needs
// a new lease.
func TestLeaseEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, c *client)
	}{
		{"time", func(r *rig, _ *client) { r.pass(time.Hour) }},
		{"RELEASE", func(_ *rig, c *client) { assert.True(t, c.sends(toServer(macA, ipA, "07"))) }},
		{"DECLINE", func(_ *rig, c *client) {
			assert.True(t, c.sends(ipv4(macA, ip0, "0000", "11",
				udp(68, 67, dhcpMessage("01", "00000007", ip0, ip0, ip0, macA, "350104", "3204"+ipA)))))
		}},
		{"NAK", func(_ *rig, c *client) { c.gets(fromServer(macA, ip0, "06")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			c, other := r.client(t, ""), r.client(t, "")
			c.lease(macA, ipA)
			r.pass(time.Hour - 1)
			require.True(t, c.talks(macA, ipA), "until the last moment")
			require.False(t, other.talks(macB, ipA))
			c.lease(macA, ipA) // renewed
			tt.end(r, c)
			assert.False(t, c.talks(macA, ipA))
			assert.False(t, c.sends(arp(macA, "0001", macA, ipA, ipA)), "nor as a static address")
			assert.True(t, c.sends(toServer(macA, ipA, "03")), "but it may ask for it from there")
			assert.False(t, c.sends(toServer(macA, ipGW, "03")))
			c.lease(macA, ipA)
			assert.True(t, c.talks(macA, ipA))
		})
	}
	t.Run("free for others", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, ""), r.client(t, "")
		c.lease(macA, ipA)
		require.True(t, c.sends(toServer(macA, ipA, "07")))
		assert.True(t, other.talks(macB, ipA))
		assert.False(t, c.talks(macA, ipA))
	})
	t.Run("not by what is said of another address", func(t *testing.T) {
		r := newRig(t)
		c := r.client(t, "")
		c.lease(macA, ipA)
		assert.True(t, c.sends(ipv4(macA, ipA, "0000", "11", udp(68, 67, dhcpMessage("01", "00000007", ipB, ip0, ip0, macA, "350107")))))
		assert.True(t, c.talks(macA, ipA))
	})
	t.Run("not with the session", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, ""), r.client(t, "")
		c.lease(macA, ipA)
		c.Close()
		assert.False(t, other.talks(macB, ipA), "it is kept")
		again := r.client(t, "")
		assert.True(t, again.talks(macA, ipA), "for the one that comes back, without DHCP")
		again.Close()
		r.pass(time.Hour)
		assert.True(t, other.talks(macB, ipA))
	})
	t.Run("by another lease", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, ""), r.client(t, "")
		c.lease(macA, ipA)
		c.lease(macA, ipC)
		assert.False(t, c.talks(macA, ipA))
		assert.True(t, c.talks(macA, ipC))
		other.lease(macB, ipA)
		assert.True(t, other.talks(macB, ipA))
		other.lease(macB, ipC) // the server has given it to another client: its last word counts
		assert.True(t, other.talks(macB, ipC))
		assert.False(t, c.talks(macA, ipC))
	})
}

// TestStatic: addresses that are not leased go to the first that announces or uses them, one each, until it leaves.
func TestStatic(t *testing.T) {
	for name, first := range map[string][]byte{
		"used":      says(macA, ipA),
		"announced": arp(macA, "0001", macA, ipA, ipA),
		"asked":     arp(macA, "0001", macA, ipA, ipGW),
		"answered":  arp(macA, "0002", macA, ipA, ipGW),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, other := r.client(t, ""), r.client(t, "")
			assert.True(t, c.sends(arp(macA, "0001", macA, ip0, ipA)), "a probe")
			assert.True(t, other.sends(arp(macB, "0001", macB, ip0, ipA)), "takes nothing")
			assert.True(t, c.sends(first))
			assert.True(t, c.talks(macA, ipA))
			assert.False(t, c.talks(macA, ipC), "one address")
			assert.False(t, other.talks(macB, ipA))
			assert.False(t, other.sends(arp(macB, "0002", macB, ipA, ipGW)))
			assert.True(t, other.talks(macB, ipB))
			c.Close()
			again := r.client(t, "")
			assert.True(t, again.sends(arp("020000000003", "0001", "020000000003", ipA, ipA)), "it was free")
		})
	}
	t.Run("not everything", func(t *testing.T) {
		r := newRig(t, func(n *Network) {
			n.Reservations = []network.Reservation{{MAC: hardware(macB), Addr: netip.MustParseAddr("192.168.105.4")}}
		})
		a, b := r.client(t, ""), r.client(t, "")
		for _, ip := range []string{ipGW, ipHost, "c0a86900", "c0a869ff", "c0a86a02", "a9fe0101", "e0000001", ip0, ipAll, ipC} {
			assert.False(t, a.talks(macA, ip), ip)
			assert.False(t, a.sends(arp(macA, "0002", macA, ip, ipB)), ip)
		}
		assert.True(t, b.talks(macB, ipC), "it is reserved for this one")
		assert.True(t, a.talks(macA, ipA))
	})
	t.Run("given up for a lease", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, ""), r.client(t, "")
		require.True(t, c.talks(macA, ipA))
		c.lease(macA, ipC)
		assert.False(t, c.talks(macA, ipA))
		assert.True(t, c.talks(macA, ipC))
		assert.True(t, other.talks(macB, ipA))
	})
	t.Run("becomes a lease", func(t *testing.T) {
		r := newRig(t)
		c := r.client(t, "")
		require.True(t, c.talks(macA, ipA))
		c.lease(macA, ipA)
		assert.True(t, c.talks(macA, ipA))
		assert.Empty(t, r.used)
		r.pass(time.Hour)
		assert.False(t, c.talks(macA, ipA))
	})
	t.Run("not taken by DHCP", func(t *testing.T) {
		r := newRig(t)
		c, other := r.client(t, ""), r.client(t, "")
		require.True(t, c.talks(macA, ipA))
		for range 3 {
			other.lease(macB, ipA)
		}
		assert.False(t, other.talks(macB, ipA))
		assert.True(t, c.talks(macA, ipA))
		assert.Contains(t, r.log.String(), "another client uses it")
		assert.Equal(t, 1, bytes.Count(r.log.Bytes(), []byte("another client uses it")))
		assert.False(t, other.talks(macB, ipC), "it has a lease, so it uses no other address")
		c.Close()
		third := r.client(t, "")
		assert.False(t, third.talks("020000000003", ipA), "it is leased")
		assert.True(t, other.talks(macB, ipA), "the lease is good now")
	})
	t.Run("not taken by DHCP from a client whose own lease of it has ended", func(t *testing.T) {
		r := newRig(t)
		first := r.client(t, "")
		first.lease(macA, ipA)
		first.Close()
		r.pass(2 * time.Hour)
		c, other := r.client(t, ""), r.client(t, "")
		require.True(t, c.talks(macA, ipA))
		other.lease(macB, ipA)
		assert.True(t, c.talks(macA, ipA))
		assert.False(t, other.talks(macB, ipA))
	})
	t.Run("not taken by DHCP from a client with another lease", func(t *testing.T) {
		r := newRig(t)
		c, other, third := r.client(t, ""), r.client(t, ""), r.client(t, "")
		require.True(t, c.talks(macA, ipA))
		other.lease(macB, ipC)
		other.lease(macB, ipA)
		assert.False(t, other.talks(macB, ipA))
		assert.False(t, other.talks(macB, ipC), "that lease has ended")
		assert.True(t, third.talks("020000000003", ipC))
	})
	t.Run("no subnet known", func(t *testing.T) {
		r := newRig(t, func(n *Network) { *n = Network{} })
		c, other := r.client(t, ""), r.client(t, "")
		for _, ip := range []string{ip0, "7f000001", "e0000001", ipAll} {
			assert.False(t, c.talks(macA, ip), ip)
		}
		assert.True(t, c.talks(macA, "08080808"))
		assert.True(t, other.sends(toServer(macB, ip0, "03")))
		other.gets(reply("0200000000ff", "0a000001", "00000007", macB, "0a000007", "05", hour))
		assert.True(t, other.talks(macB, "0a000007"), "any server's")
	})
	t.Run("no network yet", func(t *testing.T) {
		r := New(nil)
		c := &client{r.Guard(nil, slog.New(slog.DiscardHandler), nil), t}
		assert.False(t, c.talks(macA, ipA))
		assert.True(t, c.sends(arp(macA, "0001", macA, ip0, ipA)))
		c.gets(fromServer(macA, ipA, "05", hour))
		assert.Empty(t, r.Leases())
	})
}

// TestStrangers: what the host, a router or another program's guest uses is no client's, while it is used, but by a lease. What a
// client has is not taken from it.
func TestStrangers(t *testing.T) {
	const macS = "0200000000ee"
	r := newRig(t, func(n *Network) { *n = Network{Strangers: true} }) // as in bridged mode
	a, b, witness := r.client(t, macA), r.client(t, macB), r.client(t, "020000000003")
	witness.gets(arp(macS, "0002", macS, ipGW, ipA))
	witness.gets(arp(macS, "0001", macS, ip0, ipB)) // a probe
	witness.gets(ipv6(macS, "fe80 0000 0000 0000 0000 0000 0000 0001", icmp6, ra+"00 0000 40 00 0708 00000000 00000000", "0000000000000000"))
	witness.gets(ipv6(macS, globalB, icmp6, nd(na, global)))
	witness.gets(arp(macS, "0002", macS, ipGW, ipA)[:30])
	witness.gets(raw(all, macS, "0806"))
	assert.False(t, a.talks(macA, ipGW), "the router's")
	assert.False(t, a.sends(arp(macA, "0002", macA, ipGW, ipB)))
	assert.False(t, a.sends(ipv6(macA, "fe80 0000 0000 0000 0000 0000 0000 0001", noNext)))
	assert.False(t, a.sends(ipv6(macA, global, noNext)))
	assert.True(t, a.sends(ipv6(macA, globalB, noNext)))
	assert.True(t, a.talks(macA, ipB))

	witness.gets(arp(macS, "0002", macS, ipB, ipA))
	assert.True(t, a.talks(macA, ipB), "it has that")
	witness.gets(arp(macA, "0002", macA, ipC, ipA)) // of a client
	assert.True(t, b.talks(macB, ipC))

	c := r.client(t, "")
	witness.gets(arp("020000000004", "0002", "020000000004", ipA, ipB)) // from before it came
	assert.True(t, c.talks("020000000004", ipA))
	c.Close()

	b.lease(macB, ipGW)
	assert.True(t, b.talks(macB, ipGW), "DHCP knows better")
	r.pass(strangerTime)
	d := r.client(t, "")
	assert.True(t, d.sends(ipv6("020000000005", global, noNext)), "not seen for long")

	r.pass(time.Hour) // the end of the lease
	for i := range maxHeld + 100 {
		r.stranger(number(i+1), 0x06_0000_0000)
	}
	assert.LessOrEqual(t, len(r.held), maxHeld)
	r.pass(strangerTime)
	witness.gets(arp(macS, "0002", macS, ipHost, ipA))
	assert.Len(t, r.held, 1)
}

// TestKnownLeases: what the last process knew.
func TestKnownLeases(t *testing.T) {
	r := newRig(t)
	r.Leased([]Lease{
		{hardware(macA), netip.MustParseAddr("192.168.105.2"), time.Minute},
		{hardware(macB), netip.MustParseAddr("192.168.105.3"), -time.Minute},
		{hardware(macA), netip.MustParseAddr("192.168.105.9"), time.Minute},
		{hardware("0200000000ff"), netip.MustParseAddr("192.168.105.2"), time.Minute},
		{nil, netip.MustParseAddr("192.168.105.9"), time.Minute},
		{hardware(macB), netip.MustParseAddr("fe80::1"), time.Minute},
	})
	assert.Equal(t, []Lease{{hardware(macA), netip.MustParseAddr("192.168.105.2"), time.Minute}}, r.Leases())
	b, a := r.client(t, ""), r.client(t, "")
	assert.False(t, b.talks(macB, ipA), "it is a's, which is not there yet")
	assert.True(t, b.talks(macB, ipB))
	assert.True(t, a.talks(macA, ipA), "without DHCP")
	assert.False(t, a.talks(macA, ipC))
	assert.Zero(t, r.changes.Load())
	a.lease(macA, ipA)
	assert.EqualValues(t, 1, r.changes.Load())
	r.pass(time.Minute)
	assert.True(t, a.talks(macA, ipA), "renewed")
	require.True(t, a.sends(toServer(macA, ipA, "07")))
	assert.EqualValues(t, 2, r.changes.Load())
}

// number is an IPv4 address.
func number(n int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n))))
}

// TestManyLeases: what is remembered is bounded, and those that are there are not forgotten.
func TestManyLeases(t *testing.T) {
	r := newRig(t, func(n *Network) { n.Subnet = netip.MustParsePrefix("192.168.0.0/16") })
	c := r.client(t, "")
	c.lease(macA, ipA)
	for i := range maxHeld + 100 {
		r.mu.Lock()
		r.lease(watch.MAC(0x0600_0000_0000+i), number(0xc0a8_0000+i+1000), 2*time.Hour+time.Duration(i), r.now())
		r.mu.Unlock()
	}
	assert.Len(t, r.leases, maxHeld)
	assert.Len(t, r.held, maxHeld)
	assert.True(t, c.talks(macA, ipA))
	r.pass(90 * time.Minute)
	r.mu.Lock()
	r.lease(7, number(7), watch.Forever, r.now())
	r.mu.Unlock()
	assert.Len(t, r.leases, 1)
}

// TestWarnings: one a minute about each client, with what was forged.
func TestWarnings(t *testing.T) {
	r := newRig(t)
	c := r.client(t, macA)
	for range 3 {
		for range 100 {
			require.False(t, c.sends(arp(macA, "0002", macA, ipGW, ipB)))
		}
		r.pass(warnEvery)
	}
	assert.Equal(t, 3, bytes.Count(r.log.Bytes(), []byte("level=WARN")))
	assert.Contains(t, r.log.String(), `forged="ARP: 192.168.105.1 is at 02:00:00:00:00:01" mac=02:00:00:00:00:01 ip=none frames=1`)
	assert.Contains(t, r.log.String(), "frames=100")
}

// TestSave: a registry goes on where another was.
func TestSave(t *testing.T) {
	old := newRig(t)
	a, b, gone := old.client(t, ""), old.client(t, ""), old.client(t, "")
	a.lease(macA, ipA)
	global := "2001 0db8 0000 0000 0000 0000 0000 0007"
	require.True(t, a.sends(ipv6(macA, global, "3b")))
	require.False(t, a.talks(macA, ipB))
	require.True(t, b.talks(macB, ipB))
	require.True(t, gone.talks("020000000003", ipC))
	require.True(t, a.sends(toServer(macA, ipA, "03")))

	assert.Less(t, len(a.Save()), 300)
	r := newRig(t)
	r.pass(30 * time.Hour) // another clock
	r.Leased(old.Leases())
	a, b = &client{r.Guard(nil, r.logger, a.Save()), t}, &client{r.Guard(nil, r.logger, b.Save()), t}
	for name, f := range map[string][]byte{
		"leased MAC": says(macA, ipC), "MAC": says(macB, ipC),
		"lease": says("020000000009", ipA), "static": says("020000000009", ipB), "IPv6": ipv6("020000000009", global, "3b"),
	} {
		forger := r.client(t, "")
		assert.False(t, forger.sends(f), name)
		forger.Close()
	}
	assert.Equal(t, []any{"drop_spoofed", uint64(1), "spoofed_ipv4", uint64(1)}, dropArgs(a.Guard))
	assert.False(t, a.talks(macB, ipA))
	assert.True(t, a.talks(macA, ipA))
	assert.True(t, a.sends(ipv6(macA, global, "3b")))
	assert.True(t, b.talks(macB, ipB))
	a.gets(fromServer(macA, ipA, "05", hour)) // the answer to what was asked before
	assert.EqualValues(t, 1, r.changes.Load())
	r.pass(time.Hour - time.Second)
	assert.True(t, a.talks(macA, ipA))

	assert.True(t, r.client(t, "").talks("020000000003", ipC), "it did not come along, and is back as a new client")
}

// TestRestoreRefuses: with what Save does not write a client begins anew.
func TestRestoreRefuses(t *testing.T) {
	r := newRig(t)
	require.True(t, r.client(t, "").talks(macB, ipB))
	for _, text := range []string{
		`{"mac": "AQAAAAAB"}`, // of a group
		`{"mac": "AgAAAAAC"}`, // macB
		`{"ipv6": ["::1", "::1", "::1", "::1", "::1", "::1", "::1", "::1", "::1"]}`,
		`{"mac": 1}`,
	} {
		r.log.Reset()
		c := &client{r.Guard(nil, r.logger, []byte(text)), t}
		assert.Contains(t, r.log.String(), "has to show its addresses again", text)
		assert.True(t, c.talks(macA, ipA), text)
		c.Close()
	}
}
