// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A flow is numbered frames from one guest to another, as fast as they are taken, with at most a window of them on their way:
// no queue has a reason to drop any.
type flow struct {
	name     string
	from, to *fakeguest.Guest

	high, got, back, damaged atomic.Uint64
}

const (
	flowWindow = 64
	flowBatch  = 16
	flowSize   = 1514 // bytes
)

// see counts f if it is of this flow.
func (f *flow) see(b []byte) bool {
	if !bytes.Equal(b[6:12], f.from.MAC()) || len(b) != flowSize || !bytes.Equal(b[:6], f.to.MAC()) {
		return false
	}
	n := binary.BigEndian.Uint64(b[14:])
	if binary.BigEndian.Uint64(b[flowSize-8:]) != n {
		f.damaged.Add(1)
	}
	f.got.Add(1)
	if n <= f.high.Load() {
		f.back.Add(1)
		return true
	}
	f.high.Store(n)
	return true
}

// run sends count frames and waits for the last one. A flow that stands still for long is broken.
func (f *flow) run(count uint64) error {
	batch := make([][]byte, flowBatch)
	for i := range batch {
		batch[i] = fakeguest.EthernetFrame(f.to.MAC(), f.from.MAC(), fakeguest.TypeTest, make([]byte, flowSize-14))
	}
	for next := uint64(1); next <= count; {
		n := min(flowBatch, count-next+1)
		if err := f.until(next + n - 1 - min(flowWindow, next+n-1)); err != nil {
			return err
		}
		for i := range n {
			binary.BigEndian.PutUint64(batch[i][14:], next+i)
			binary.BigEndian.PutUint64(batch[i][flowSize-8:], next+i)
		}
		if err := f.from.Send(batch[:n]...); err != nil {
			return err
		}
		next += n
	}
	return f.until(count)
}

// until waits until number n has arrived.
func (f *flow) until(n uint64) error {
	for last, since := uint64(0), time.Now(); f.high.Load() < n; time.Sleep(20 * time.Microsecond) {
		if high := f.high.Load(); high != last {
			last, since = high, time.Now()
		} else if time.Since(since) > 2*patience {
			return fmt.Errorf("%s: number %d did not come, the last one was %d", f.name, n, high)
		}
	}
	return nil
}

// runFlows runs flows at the same time, with count frames each, and checks that each frame came, once and in order.
func runFlows(t *testing.T, count uint64, flows ...*flow) {
	t.Helper()
	to := map[*fakeguest.Guest][]*flow{}
	for _, f := range flows {
		to[f.to] = append(to[f.to], f)
	}
	for g, all := range to {
		g.SetTap(func(b []byte) bool {
			for _, f := range all {
				if f.see(b) {
					return true
				}
			}
			return false
		})
		defer g.SetTap(nil)
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, f := range flows {
		wg.Go(func() { assert.NoError(t, f.run(count)) })
	}
	wg.Wait()
	took := time.Since(began)
	for _, f := range flows {
		assert.Equal(t, count, f.got.Load(), "%s: frames that came", f.name)
		assert.Zero(t, f.back.Load(), "%s: out of order, or twice", f.name)
		assert.Zero(t, f.damaged.Load(), "%s: damaged", f.name)
		assert.NoError(t, f.to.Err(), f.name)
	}
	t.Logf("%d flows of %d frames in %s: %.0f frames/s", len(flows), count, took.Round(time.Millisecond),
		float64(len(flows))*float64(count)/took.Seconds())
}

func newFlow(name string, from, to *fakeguest.Guest) *flow {
	return &flow{name: name, from: from, to: to}
}

// eight makes eight path clients, half of them connected and half not, in turns.
func (p *process) eight() (ways []vnettest.Transport) {
	for i := range 8 {
		ways = append(ways, []vnettest.Transport{p.connected(), p.unconnected()}[i%2])
	}
	return ways
}

// TestSevenDeafAndOneHealthy: seven of eight clients of the shared socket never read, one more has put a link to another
// program's socket where its own was, and one has a relative address. All are sent to at full speed. The healthy one and the
// stream clients lose nothing, and what is not meant to get anything gets nothing.
func TestSevenDeafAndOneHealthy(t *testing.T) {
	for name, healthy := range map[string]int{"connected": 0, "unconnected": 1} {
		t.Run(name, func(t *testing.T) { testOneHealthy(t, healthy) })
	}
}

func testOneHealthy(t *testing.T, healthy int) {
	home := shortDir(t)
	t.Chdir(home) // the daemon's directory, where a relative address would lead it
	p := startOpen(t)
	misled := listenGram(t, "relative")
	s1, s2, flooder := over(t, p.stream()), over(t, p.stream()), over(t, p.stream())
	introduce(t, s1, s2, flooder)

	var deaf []net.HardwareAddr
	var g *fakeguest.Guest
	for i, way := range p.eight() {
		if i == healthy {
			g = over(t, way)
			introduce(t, s1, g)
			continue
		}
		mac := net.HardwareAddr{2, 0, 0, 0, 0xd, byte(i)}
		l := dialWay(t, way)
		hears(t, s1, "deaf", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "deaf")) })
		deaf = append(deaf, mac)
	}
	victim := listenGram(t, filepath.Join(shortDir(t), "victim"))
	tricks := []net.HardwareAddr{trick(t, p, s1, 1, true, victim), trick(t, p, s1, 2, false, victim)}

	t.Chdir(shortDir(t))
	relative, err := fakeguest.PathLink(t.Context(), fakeguest.PathOptions{Server: vnettest.DatagramPath(p.sock), Local: "relative", Connected: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = relative.Close() })
	stray := net.HardwareAddr{2, 0, 0, 0, 0xe, 1}
	heard := s1.Listen(func(f []byte) bool { return bytes.Equal(f[6:12], stray) })

	stop, full := make(chan struct{}), make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		var batch [][]byte
		for range 8 {
			for _, mac := range deaf {
				batch = append(batch, fakeguest.EthernetFrame(mac, flooder.MAC(), fakeguest.TypeTest, make([]byte, 1500)))
			}
		}
		few := [][]byte{testFrame(stray, flooder.MAC(), "for the relative one")}
		for _, mac := range tricks {
			few = append(few, testFrame(mac, flooder.MAC(), "for the trick's socket"))
		}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			assert.NoError(t, flooder.Send(batch...))
			if i == 500 { // 4,000 frames for each deaf client: what can be full is full
				close(full)
			}
			if i%8 == 0 { // these reach all others perhaps, which must not be flooded
				assert.NoError(t, flooder.Send(few...))
				_ = relative.Send(testFrame(fakeguest.Broadcast, stray, "from nowhere"))
			}
		}
	})
	defer flood.Wait()
	defer close(stop)
	<-full
	runFlows(t, 3000,
		newFlow("stream to healthy", s1, g), newFlow("healthy to stream", g, s1),
		newFlow("stream to stream", s1, s2), newFlow("stream to stream, back", s2, s1),
		newFlow("other stream to healthy", s2, g),
	)
	assert.Empty(t, received(t, victim), "the trick's target got frames")
	assert.Empty(t, received(t, misled), "the socket that a relative address names in the daemon's directory got frames")
	assert.Empty(t, heard.Collect(10*time.Millisecond), "frames of a client that cannot be answered")
	assert.True(t, p.alive())
}

// trick makes a client of which the daemon knows, and then puts a link to the victim's socket where its own was.
func trick(t *testing.T, p *process, witness *fakeguest.Guest, n byte, connected bool, victim *net.UnixConn) net.HardwareAddr {
	t.Helper()
	mac, local := net.HardwareAddr{2, 0, 0, 0, 0xc, n}, filepath.Join(shortDir(t), "trick")
	l, err := fakeguest.PathLink(t.Context(), fakeguest.PathOptions{
		Server: vnettest.DatagramPath(p.sock), Local: local, Connected: connected,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	hears(t, witness, "trick", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "trick")) })
	require.NoError(t, os.Rename(local, local+".away"))
	require.NoError(t, os.Symlink(victim.LocalAddr().String(), local))
	return mac
}

// listenGram binds a datagram socket that has nothing to do with the daemon.
func listenGram(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// received is what has come to c so far.
func received(t *testing.T, c *net.UnixConn) (all []string) {
	t.Helper()
	for buf := make([]byte, 70000); ; {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		n, _, err := c.ReadFromUnix(buf)
		if err != nil {
			return all
		}
		all = append(all, fmt.Sprintf("%q", buf[:min(n, 60)]))
	}
}
