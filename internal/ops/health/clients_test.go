// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// claim has the guest of client id say that it has ip.
func (w *world) claim(id uint64, ip string) {
	a := netip.MustParseAddr(ip)
	for i := range w.Clients {
		if c := &w.Clients[i]; c.ID == id {
			c.IP, c.IPSeen = a, w.Now
			mac, _ := net.ParseMAC(c.MAC)
			w.m.Seen(id, watch.Snapshot{MAC: mac, IP: a, Claimed: w.Now})
		}
	}
}

func TestDuplicateIP(t *testing.T) {
	w := newWorld(t, 3)
	w.claim(1, "192.168.105.77")
	assert.Empty(t, w.look(t))
	w.after(time.Second)
	w.Clients[2].IP = netip.MustParseAddr("192.168.105.77")
	assert.Empty(t, w.look(t), "it has not claimed it as far as is known")
	w.after(60 * time.Second)
	w.claim(3, "192.168.105.77")
	assert.Empty(t, w.look(t), "the other one may have been off for a while")
	w.after(30 * time.Second)
	w.claim(1, "192.168.105.77")
	p := w.look(t)[status.DuplicateIP]
	assert.Equal(t, status.Error, p.Severity)
	assert.Equal(t, []uint64{1, 3}, p.Clients)
	assert.Equal(t, "192.168.105.77 is used by 2 guests at the same time: client 1 (52:54:00:00:00:01) and client 3 (52:54:00:00:00:03).", p.Text)
	w.after(time.Hour)
	w.Network.DHCP.Leases = []status.Lease{{IP: w.Clients[0].IP, MAC: "52:54:00:00:00:01"}}
	assert.Contains(t, w.look(t)[status.DuplicateIP].Text, "DHCP gave it to 52:54:00:00:00:01.", "it goes on until one has another address")
	assert.Equal(t, 1, w.said("two guests use one IP address"))
	w.claim(3, "192.168.105.78")
	assert.Empty(t, w.look(t))
}

func TestGuestThatMovedIsNoDuplicate(t *testing.T) {
	w := newWorld(t, 2)
	w.Clients[1].MAC, w.Clients[1].Name = w.Clients[0].MAC, "again"
	w.Clients[0].State = status.StateRunning
	w.claim(1, "192.168.105.77")
	w.after(time.Second)
	w.claim(2, "192.168.105.77")
	assert.NotContains(t, w.look(t), status.DuplicateIP, "it is one guest, by its MAC address")
	w.Clients[1].MAC = "52:54:00:00:00:02"
	w.Clients[0].State = status.StateLeaving
	w.claim(2, "192.168.105.77")
	assert.Empty(t, w.look(t), "the other one is on its way out")
}

func TestHostsAddresses(t *testing.T) {
	for ip, whose := range map[string]string{"192.168.105.1": "the gateway's", "192.168.105.254": "the host's"} {
		w := newWorld(t, 2)
		w.claim(2, ip)
		p := w.look(t)[status.DuplicateIP]
		assert.Contains(t, p.Text, fmt.Sprintf("%s is %s address, and client 2 (52:54:00:00:00:02) uses it", ip, whose))
		assert.Equal(t, []uint64{2}, p.Clients)
		w.Network.Mode = "bridged"
		assert.Empty(t, w.look(t))
	}
}

func TestManyDuplicates(t *testing.T) {
	w := newWorld(t, 0)
	for i := range 40 {
		c := client(uint64(i + 1))
		c.MAC = fmt.Sprintf("52:54:00:00:01:%02x", i)
		w.Clients = append(w.Clients, c)
		w.claim(c.ID, fmt.Sprintf("192.168.105.%d", 100+i/2))
	}
	problems := w.m.Problems(w.Status)
	assert.Len(t, problems, 8)
	assert.Contains(t, problems[7].Text, "(and 12 more like this)")
	assert.Equal(t, 8, w.said("two guests use one IP address"))
}

func TestDuplicateMAC(t *testing.T) {
	w := newWorld(t, 3)
	w.look(t)
	old, young := &w.Clients[0], &w.Clients[2]
	*young = client(3)
	young.MAC, young.IP, young.Connected, young.Age = old.MAC, old.IP, w.Now, 0
	w.after(4 * time.Second)
	young.ToNet.Frames += 5
	old.ToNet.Frames += 5
	assert.Empty(t, w.look(t), "the older one may just be ending")
	w.after(4 * time.Second)
	p := w.look(t)[status.DuplicateMAC]
	assert.Equal(t, status.Error, p.Severity)
	assert.Equal(t, []uint64{1, 3}, p.Clients)
	assert.Contains(t, p.Text, "52:54:00:00:00:01 is the MAC address of 2 clients")
	assert.Equal(t, 1, w.said("two clients use one MAC address"))
	w.after(2 * time.Minute)
	assert.Contains(t, w.look(t), status.DuplicateMAC, "quiet, but both are there")
	w.Clients = w.Clients[1:]
	assert.Empty(t, w.look(t))
}

func TestLeftBehindIsNoDuplicate(t *testing.T) {
	w := newWorld(t, 2)
	w.look(t)
	w.after(time.Minute)
	young := client(3)
	young.MAC, young.Connected, young.Age = w.Clients[0].MAC, w.Now, 0
	w.Clients = append(w.Clients, young)
	for range 10 {
		w.after(3 * time.Second)
		w.Clients[2].ToNet.Frames++
		assert.Empty(t, w.look(t), "the older one sends nothing")
	}
}

func TestGrowing(t *testing.T) {
	add := func(drops map[string]uint64, reason string, n uint64) { drops[reason] += n }
	tests := []struct {
		name   string
		code   string
		little uint64 // in 10 s is none
		grow   func(c *status.Client, n uint64)
		text   string
	}{
		{"storm", status.Storm, 0, func(c *status.Client, n uint64) { add(c.ToNet.Drops, "drop_storm", n) }, "30 broadcasts"},
		{"slow", status.SlowClient, 0, func(c *status.Client, n uint64) { add(c.ToClient.Drops, "drop_queue_full", n) }, "30 frames for it were dropped"},
		{"oversize", status.OffloadMixed, 0, func(c *status.Client, n uint64) { add(c.ToClient.Drops, "drop_oversize", n) }, "30 in the last"},
		{"flapping", status.Flapping, 10, func(c *status.Client, n uint64) { c.MACMoves += n }, "30 times to client 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3)
			c := &w.Clients[1]
			tt.grow(c, 4000)
			p := w.look(t)[tt.code]
			assert.Equal(t, status.Notice, p.Severity, "it is not known when it was")
			assert.Contains(t, p.Text, "in the last 60 min")
			w.after(2 * time.Second)
			assert.NotContains(t, w.look(t), tt.code, "nothing since")
			w.after(8 * time.Second)
			tt.grow(c, tt.little)
			assert.NotContains(t, w.look(t), tt.code)
			w.after(10 * time.Second)
			tt.grow(c, 30)
			p = w.look(t)[tt.code]
			show(p)
			assert.Equal(t, status.Warning, p.Severity)
			assert.Equal(t, []uint64{2}, p.Clients)
			assert.Contains(t, p.Text, tt.text)
			w.after(2 * time.Second)
			assert.Contains(t, w.look(t), tt.code, "still in the window")
			w.after(10 * time.Second)
			w.look(t)
			w.after(10 * time.Second)
			assert.NotContains(t, w.look(t), tt.code, "over")
			w.after(time.Hour)
			tt.grow(c, 4000)
			p = w.look(t)[tt.code]
			assert.Equal(t, status.Notice, p.Severity, "some time in an hour")
			w.after(-time.Hour) // the clock is set back
			assert.NotPanics(t, func() { w.look(t) })
			w.Clients = append(w.Clients[:1:1], w.Clients[2]) // another one comes
			fresh := client(9)
			fresh.Age = 2
			tt.grow(&fresh, 30)
			w.Clients = append(w.Clients, fresh)
			assert.Equal(t, status.Warning, w.look(t)[tt.code].Severity, "it has all been just now")
		})
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.Totals.Refused = 5
	assert.Equal(t, status.Notice, w.look(t)[status.ClientsRefused].Severity)
	w.after(11 * time.Second)
	assert.NotContains(t, w.look(t), status.ClientsRefused)
	w.after(11 * time.Second)
	w.Totals.Refused = 7
	p := w.look(t)[status.ClientsRefused]
	show(p)
	assert.Equal(t, status.Warning, p.Severity)
	assert.Contains(t, p.Text, "2 connections were refused in the last 11 s because there were 256 clients")
}

// TestNotServed: what was refused with advice is told for a while, and what was only counted is not.
func TestNotServed(t *testing.T) {
	w := newWorld(t, 1)
	w.Totals.Unserved = []status.Refusal{
		{Reason: "early", Count: 3, Last: start},
		{Reason: "owned by root", Count: 37, Last: start.Add(-3 * time.Second), From: `datagrams from "/tmp/qemu1.sock"`, Advice: "have exec --dgram run it"},
	}
	p := w.look(t)[status.NotServed]
	show(p)
	assert.Equal(t, status.Warning, p.Severity)
	assert.Equal(t, `Refused: datagrams from "/tmp/qemu1.sock", owned by root (37 so far, the last 3 s ago).`, p.Text)
	assert.Equal(t, "Have exec --dgram run it.", p.Fix[0])
	assert.Contains(t, p.Fix[2], "socket_vmnet2 exec --dgram /run/vm.sock -- qemu")
	w.after(time.Minute)
	assert.Equal(t, status.Notice, w.look(t)[status.NotServed].Severity)
	w.after(10 * time.Minute)
	assert.Empty(t, w.look(t))
}

func TestStartingForLong(t *testing.T) {
	w := newWorld(t, 0)
	w.Network.State = status.NetworkStarting
	assert.Equal(t, status.Notice, w.look(t)[status.NetworkStart].Severity)
	w.after(9 * time.Second)
	assert.Equal(t, status.Notice, w.look(t)[status.NetworkStart].Severity)
	w.after(time.Second)
	assert.Equal(t, status.Warning, w.look(t)[status.NetworkStart].Severity)
}

// TestStalledIsNotSlow: one cause is one problem.
func TestStalledIsNotSlow(t *testing.T) {
	w := newWorld(t, 2)
	w.look(t)
	w.after(10 * time.Second)
	c := &w.Clients[1]
	c.ToClient.Drops["drop_queue_full"] += 30
	c.Queue.Bytes, c.Queue.Stalled = 2<<20, 4.9
	assert.Contains(t, w.look(t), status.SlowClient)
	c.Queue.Stalled = 5
	found := w.look(t)
	assert.Contains(t, found, status.StalledClient)
	assert.NotContains(t, found, status.SlowClient)
}
