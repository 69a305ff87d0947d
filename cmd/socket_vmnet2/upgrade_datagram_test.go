// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// A checkedFlow is numbered frames from one guest to another; what comes is checked byte by byte.
type checkedFlow struct {
	from, to *fakeguest.Guest
	dst, src net.HardwareAddr // of the frames that are sent, and of those that come

	sent, got, bad atomic.Uint64
	foreign        atomic.Uint64 // frames for one other client
	last           uint64        // number
	at             time.Time     // of it
	gap            atomic.Int64  // the longest time between two frames, ns
	failed         atomic.Pointer[error]
	strict         bool // few frames are on their way, so that no queue has a reason to drop any
}

func newCheckedFlow(from, to *fakeguest.Guest) *checkedFlow {
	n := &checkedFlow{from: from, to: to, dst: to.MAC(), src: from.MAC()}
	to.SetTap(n.take)
	return n
}

// err is that of sending, nil while there is none.
func (n *checkedFlow) err() error {
	if p := n.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// check is for the end.
func (n *checkedFlow) check(t *testing.T, name string) {
	t.Helper()
	assert.NoError(t, n.err(), name)
	assert.NoError(t, n.from.Err(), "a disconnect: %s", name)
	assert.Zero(t, n.bad.Load(), "frames out of order, twice or changed: %s", name)
	t.Logf("%s: %d frames, %d lost", name, n.sent.Load(), n.sent.Load()-n.got.Load())
	assert.Greater(t, n.got.Load(), n.sent.Load()/2, name)
}

// sendAll has all flows send until stop, which waits for what is on its way.
func sendAll(flows []*checkedFlow) (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for _, n := range flows {
		n.foreign.Store(0) // those of the start
		wg.Go(func() { n.send(quit) })
	}
	return func() {
		close(quit)
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
	}
}

// upgradeBeside has the flows move before and after an upgrade, and returns the longest silence of one.
func (p *process) upgradeBeside(t *testing.T, flows []*checkedFlow, upgrade func()) (gap time.Duration) {
	t.Helper()
	for _, n := range flows {
		n.moves(t, p)
		n.gap.Store(0)
	}
	upgrade()
	for _, n := range flows {
		n.moves(t, p)
		gap = max(gap, time.Duration(n.gap.Load()))
	}
	return gap.Round(time.Millisecond)
}

// flowFrame is frame i of a flow: lengths of all kinds, and bytes that belong to the number.
func flowFrame(dst, src net.HardwareAddr, i uint64) []byte {
	p := make([]byte, 16+i*37%1400)
	binary.BigEndian.PutUint64(p, i)
	for k := 8; k < len(p); k++ {
		p[k] = byte(i) + byte(k)
	}
	return fakeguest.EthernetFrame(dst, src, 0x88b6, p)
}

// send sends until stop, about 1,000 frames a second.
func (n *checkedFlow) send(stop <-chan struct{}) {
	var ahead lead
	for i := uint64(1); ; i += 2 {
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
		if err := n.from.Send(flowFrame(n.dst, n.from.MAC(), i), flowFrame(n.dst, n.from.MAC(), i+1)); err != nil {
			n.failed.Store(&err)
			return
		}
		n.sent.Store(i + 1)
		if n.strict {
			for n.sent.Load()-n.got.Load() > 64 {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Microsecond):
				}
			}
			continue
		}
		ahead.wait(i+1, &n.got)
	}
}

// beside has guests send to others, each of which gets from one only, until the returned function is called, which checks that every frame
// came, once and in order.
func (p *process) beside(t *testing.T, pairs ...[2]*fakeguest.Guest) (stop func()) {
	t.Helper()
	var flows []*checkedFlow
	for _, pair := range pairs {
		n := newCheckedFlow(pair[0], pair[1])
		n.strict = true
		flows = append(flows, n)
	}
	end := sync.OnceFunc(sendAll(flows))
	t.Cleanup(end)
	return func() {
		t.Helper()
		for _, n := range flows {
			n.moves(t, p)
		}
		end()
		for _, n := range flows {
			require.Eventually(t, func() bool { return n.got.Load() == n.sent.Load() }, patience, time.Millisecond, "frames are lost")
			n.check(t, n.from.MAC().String())
			n.to.SetTap(nil)
		}
	}
}

// take is the receiver's tap: it checks the flow's frames.
func (n *checkedFlow) take(f []byte) bool {
	if f[0]&1 == 0 && !slices.Equal(f[:6], n.to.MAC()) {
		n.foreign.Add(1)
	}
	if len(f) < frame.MinLen+16 || f[12] != 0x88 || f[13] != 0xb6 || !slices.Equal(f[6:12], n.src) {
		return false
	}
	i := binary.BigEndian.Uint64(f[14:])
	if i <= n.last || !slices.Equal(flowFrame(f[:6], n.src, i), f) {
		n.bad.Add(1)
	}
	n.last = i
	now := time.Now()
	if d := int64(now.Sub(n.at)); !n.at.IsZero() && d > n.gap.Load() {
		n.gap.Store(d)
	}
	n.at = now
	n.got.Add(1)
	return true
}

// moves waits until the flow has brought more frames.
func (n *checkedFlow) moves(t *testing.T, p *process) {
	t.Helper()
	before := n.got.Load()
	require.Eventually(t, func() bool { return n.got.Load() > before+20 }, 2*patience, time.Millisecond,
		"nothing comes any more: %v, %v, %v\n%s", n.err(), n.from.Err(), n.to.Err(), p.stderr)
}

// TestUpgradeKeepsAllKinds: clients of every kind go on with what they were over an upgrade, after two whose exec failed. None can send
// from what another is known to have, then as before. What is forged is tested in package antispoof.
func TestUpgradeKeepsAllKinds(t *testing.T) {
	p, path := startOwnOpen(t, "--anti-spoof")
	var guests []*fakeguest.Guest
	leases := map[*fakeguest.Guest]fakeguest.Lease{}
	for _, way := range p.ways() {
		g := over(t, way)
		l, err := g.Configure()
		require.NoError(t, err, way.Name)
		guests, leases[g] = append(guests, g), l
	}
	introduce(t, guests...)
	before := p.describes(t, running(len(guests)))
	reach := func() {
		t.Helper()
		for i, g := range guests {
			to := guests[(i+1)%len(guests)]
			text := "on from " + g.MAC().String()
			hears(t, to, text, func() error { return g.Send(testFrame(to.MAC(), g.MAC(), text)) })
		}
	}
	for range 2 {
		// In check mode it answers by the real program, and has no interpreter afterwards.
		sh := filepath.Join(t.TempDir(), "sh")
		require.NoError(t, os.Symlink("/bin/sh", sh))
		script := "#!" + sh + "\nif [ \"$1\" = --upgrade-check ]; then /bin/rm " + sh + "; exec " +
			os.Getenv("MACHRUN") + " " + filepath.Join(binaries, "socket_vmnet2") + " --upgrade-check; fi\n"
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
		_, stderr, err := p.upgrade(t)
		require.Error(t, err)
		assert.Contains(t, stderr, "no such file or directory")
		p.says(t, "WARN | no upgrade: this image goes on")
		reach()
		guests = append(guests, over(t, p.stream())) // a newcomer
	}
	require.NoError(t, os.Remove(path))
	replaceProgram(t, path)
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	reach()
	for g, l := range leases {
		require.NoError(t, g.Err())
		again, err := g.Renew(l)
		require.NoError(t, err)
		assert.Equal(t, l.Addr, again.Addr)
	}
	after, _ := p.status(t)
	assert.True(t, before.Daemon.Started.Equal(after.Daemon.Started))
	for i, c := range before.Clients {
		is := after.Clients[i]
		assert.Equal(t, []any{c.ID, c.Transport, c.Path, c.MAC, c.IP, c.Peer, c.Connected.UTC()}, []any{is.ID, is.Transport, is.Path, is.MAC, is.IP, is.Peer, is.Connected.UTC()})
		assert.GreaterOrEqual(t, is.ToNet.Frames, c.ToNet.Frames)
	}
	assert.Equal(t, 1, strings.Count(p.stderr.String(), "INFO | upgraded "))

	forger, victim, heard := guests[0], guests[1], guests[2].Listen(nil)
	ip := victim.Addr().Addr()
	forged := [][]byte{
		testFrame(fakeguest.Broadcast, victim.MAC(), "forged"),
		fakeguest.EthernetFrame(fakeguest.Broadcast, forger.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(fakeguest.ARPReply, forger.MAC(), ip, fakeguest.Broadcast, ip)),
	}
	require.NoError(t, forger.Send(append(forged, testFrame(fakeguest.Broadcast, forger.MAC(), "that was all"))...))
	for {
		f, err := heard.Next(patience)
		require.NoError(t, err)
		if strings.HasPrefix(string(f[14:]), "that was all") {
			break
		}
		for _, b := range forged {
			assert.False(t, bytes.HasPrefix(f, b), "%x", f)
		}
	}
	p.says(t, "frames with forged addresses are dropped")
}
