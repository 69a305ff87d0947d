// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

const (
	// probeFrames is how many frames each probe sends, probePause how long it waits between them.
	probeFrames = 10
	probePause  = time.Millisecond
	// settle is how long a frame is waited for that should not come.
	settle = 100 * time.Millisecond

	probePort = 40001 // UDP; nobody listens there
	// tokenAt is where the token of a probe begins in a frame: behind the headers.
	tokenAt  = 14 + 20 + 8
	tokenLen = 12
)

// tokens number the probes of the process.
var tokens atomic.Uint64

// A catch is what one guest got of the frames of a probe.
type catch struct {
	want [][]byte // by number
	sent []time.Time
	all  chan struct{} // closed when each came

	mu      sync.Mutex
	seen    []bool
	came    int // of len(want), each counted once
	twice   int
	damaged int
	delays  []time.Duration
}

func newCatch(want [][]byte) *catch {
	return &catch{want: want, sent: make([]time.Time, len(want)), all: make(chan struct{}), seen: make([]bool, len(want))}
}

// look is a guest's tap.
func (c *catch) look(f []byte) bool {
	now := time.Now()
	if len(f) < tokenAt+tokenLen || !bytes.Equal(f[tokenAt:tokenAt+8], c.want[0][tokenAt:tokenAt+8]) {
		return false
	}
	i := int(binary.BigEndian.Uint32(f[tokenAt+8:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case i >= len(c.want) || !bytes.Equal(f, c.want[i]):
		c.damaged++
	case c.seen[i]:
		c.twice++
	default:
		c.seen[i] = true
		c.delays = append(c.delays, now.Sub(c.sent[i]))
		if c.came++; c.came == len(c.want) {
			close(c.all)
		}
	}
	return false
}

// arrived is how many different frames came undamaged.
func (c *catch) arrived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came
}

// some tells whether anything came.
func (c *catch) some() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came+c.twice+c.damaged > 0
}

// wrong tells what was wrong with what came, empty if nothing.
func (c *catch) wrong() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.damaged > 0:
		return fmt.Sprintf("%d of %d frames arrived damaged", c.damaged, len(c.want))
	case c.came < len(c.want):
		return fmt.Sprintf("%d of %d frames arrived", c.came, len(c.want))
	case c.twice > 0:
		return fmt.Sprintf("%d frames too many arrived", c.twice)
	}
	return ""
}

// median is the middle of the delays.
func (c *catch) median() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return median(c.delays)
}

// frames are n UDP datagrams from g to ip behind mac with size bytes of IP packet, and all of them carry a new token.
func frames(g *guest, mac net.HardwareAddr, ip netip.Addr, n, size int) [][]byte {
	data := make([]byte, size-28)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	token := tokens.Add(1)<<32 | uint64(time.Now().UnixNano())&0xffffffff
	binary.BigEndian.PutUint64(data, token)
	out := make([][]byte, n)
	for i := range out {
		binary.BigEndian.PutUint32(data[8:], uint32(i))
		from, to := netip.AddrPortFrom(g.Addr().Addr(), probePort), netip.AddrPortFrom(ip, probePort)
		out[i] = fakeguest.EthernetFrame(mac, g.MAC(), fakeguest.TypeIPv4, fakeguest.UDPPacket(from, to, data))
	}
	return out
}

// probe sends frames from one guest and tells what each guest got of them. It waits until wanted have all of them, but no
// longer than an answer may take, and then for what should not come.
func (r *run) probe(ctx context.Context, from *guest, fs [][]byte, wanted []*guest) (map[*guest]*catch, error) {
	got := map[*guest]*catch{}
	for _, g := range r.guests {
		c := newCatch(fs)
		got[g] = c
		g.SetTap(c.look)
		defer g.SetTap(nil)
	}
	for i, f := range fs {
		for _, c := range got {
			c.mu.Lock()
			c.sent[i] = time.Now()
			c.mu.Unlock()
		}
		if err := from.Send(f); err != nil {
			return nil, err
		}
		time.Sleep(probePause)
	}
	limit := time.NewTimer(r.opts.Answer)
	defer limit.Stop()
	for _, g := range wanted {
		select {
		case <-got[g].all:
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		break
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
	return got, ctx.Err()
}

// strangers are the guests that got something though they are not in wanted.
func (r *run) strangers(got map[*guest]*catch, wanted ...*guest) []string {
	var out []string
	for _, g := range r.guests {
		if !slices.Contains(wanted, g) && got[g].some() {
			out = append(out, "guest "+g.name)
		}
	}
	return out
}

// median is the middle of ds, 0 for none.
func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2]
}
