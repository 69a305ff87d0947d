// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// A lan is a network under test with the stations attached to it. It knows, of each frame that a station sends, which stations must get it:
// the model of a switch that learns, against which compare holds what came. Every station checks all the time that what it is given
// is well formed and undamaged, that it is given nothing after Close, and that what it sent was not written to.
type lan struct {
	t       *testing.T
	network network.Network

	mu       sync.Mutex
	stations []*station
	owner    map[string]*station // of an address: the station that used it last
}

// A station is one client.
type station struct {
	lan  *lan
	name string
	mac  net.HardwareAddr
	port network.Port
	in   *inbox
	want []seen // what must come until the next compare; guarded by lan.mu

	mu  sync.Mutex // one goroutine at a time sends
	buf []byte
}

// stationPrefix begins the MAC addresses of stations, so that other senders can be told from them.
const stationPrefix = "\x02vnt"

// macs numbers the addresses of stations.
var macs atomic.Uint32

// newMAC is an address that no station had before.
func newMAC() net.HardwareAddr {
	n := macs.Add(1)
	return net.HardwareAddr(stationPrefix + string([]byte{byte(n >> 8), byte(n)}))
}

// attach adds a station. change, if not nil, adjusts its inbox before anything can come.
func (l *lan) attach(name string, change func(*inbox)) *station {
	l.t.Helper()
	s, err := l.tryAttach(context.Background(), name, change)
	require.NoError(l.t, err, "attach %s", name)
	return s
}

func (l *lan) tryAttach(ctx context.Context, name string, change func(*inbox)) (*station, error) {
	s := &station{lan: l, name: name, mac: newMAC(), in: &inbox{name: name, max: frame.MaxLen}}
	if change != nil {
		change(s.in)
	}
	p, err := l.network.Attach(ctx, network.PortOptions{Name: name, ID: name}, s.in)
	if err != nil {
		return nil, err
	}
	s.port = p
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stations = append(l.stations, s)
	return s, nil
}

// three attaches the stations A, B and C and lets all stations know them.
func (l *lan) three() (a, b, c *station) {
	l.t.Helper()
	a, b, c = l.attach("A", nil), l.attach("B", nil), l.attach("C", nil)
	l.settle()
	return a, b, c
}

// poison overwrites batches when Send has returned.
const poison = 0xa5

// send sends test frames in one batch, and notes which stations must get them.
func (s *station) send(frames ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range frames {
		s.lan.predict(s, f)
	}
	s.put(frames)
}

// pour sends test frames that may get lost: no comparison asks for them.
func (s *station) pour(frames ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(frames)
}

// put sends a batch. When Send has returned it checks that the batch was not written to, then overwrites it, so that a network that
// kept it is found out.
func (s *station) put(frames [][]byte) {
	s.buf = s.buf[:0]
	for _, f := range frames {
		s.buf = frame.Append(s.buf, f)
	}
	before := bytes.Clone(s.buf)
	s.port.Send(frame.NewBatch(s.buf, len(frames)))
	if !bytes.Equal(before, s.buf) {
		s.in.complain("Send wrote to the batch")
	}
	for i := range s.buf {
		s.buf[i] = poison
	}
}

// predict notes which stations must get f, which s sends.
func (l *lan) predict(s *station, f []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, _ := parseTest(f)
	if s.in.closed.Load() {
		return
	}
	l.owner[x.src] = s
	owner := l.owner[x.dst]
	for _, d := range l.stations {
		if d != s && (owner == nil || owner == d) && d.compares() && len(f) <= d.in.max {
			d.want = append(d.want, x)
		}
	}
}

// compares tells whether what s gets is compared: not of one that is closed, and not of one that does not take all.
func (s *station) compares() bool { return !s.in.closed.Load() && !s.in.deaf && s.in.hold == nil }

// to makes a frame from s to the station d.
func (s *station) to(d *station, n int) []byte { return testFrame(d.mac, s.mac, n) }

// toMAC makes a frame from s to an address.
func (s *station) toMAC(dst net.HardwareAddr, n int) []byte { return testFrame(dst, s.mac, n) }

// close closes the station's port; from then on it complains about deliveries.
func (s *station) close() {
	s.lan.returns("Close of the port of "+s.name, func() {
		err := s.port.Close()
		s.in.closed.Store(true)
		assert.NoError(s.lan.t, err, "close the port of %s", s.name)
	})
	s.lan.mu.Lock()
	defer s.lan.mu.Unlock()
	maps.DeleteFunc(s.lan.owner, func(_ string, owner *station) bool { return owner == s })
}

// soon waits until cond is true and reports whether it became so.
func (l *lan) soon(cond func() bool) bool {
	for end := time.Now().Add(patience); !cond(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// returns makes a call that may not block for long and ends the check if it does.
func (l *lan) returns(what string, call func()) {
	l.t.Helper()
	if !l.attempt(what, call) {
		l.t.FailNow()
	}
}

// attempt makes a call that may neither block for long nor panic, and reports whether it returned.
func (l *lan) attempt(what string, call func()) bool {
	l.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				assert.Fail(l.t, "panic", "%s: %v", what, p)
			}
		}()
		call()
	}()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return assert.Fail(l.t, "blocked", "%s did not return within %s", what, patience)
	}
}

// compare waits until every station has got what it must, and checks that it was no more, with each sender's frames in order.
func (l *lan) compare() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stations {
		if s.compares() { // whatever does not come is told below
			l.soon(func() bool { return s.in.count() >= len(s.want) })
		}
	}
	time.Sleep(time.Millisecond) // for networks with a queue per direction
	for _, s := range l.stations {
		got, want := s.in.take(), s.want
		s.want = nil
		if s.compares() && !slices.Equal(got, want) {
			require.Equal(l.t, bySource(want), bySource(got), "what %s got", s.name)
		}
	}
}

// bySource are frames in their order, apart for each sender.
func bySource(all []seen) map[string][]seen {
	m := map[string][]seen{}
	for _, s := range all {
		m[s.src] = append(m[s.src], s)
	}
	return m
}

// settle makes sure that everything sent so far has arrived, and compares: each station broadcasts a frame, behind which nothing
// more can come.
func (l *lan) settle() {
	l.t.Helper()
	l.mu.Lock()
	stations := slices.Clone(l.stations)
	l.mu.Unlock()
	for _, s := range stations {
		if s.compares() {
			s.send(s.toMAC(fakeguest.Broadcast, 60))
		}
	}
	l.compare()
}

// finish closes everything and reports the broken rules.
func (l *lan) finish() {
	l.t.Helper()
	l.mu.Lock()
	stations := slices.Clone(l.stations)
	l.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range stations {
		wg.Go(s.close)
	}
	wg.Wait()
	l.attempt("close the network", func() { assert.NoError(l.t, l.network.Close(), "close the network") })
	for _, s := range stations {
		s.in.mu.Lock()
		for _, b := range s.in.bad {
			assert.Fail(l.t, "rule broken", "%s: %s", s.name, b)
		}
		s.in.mu.Unlock()
	}
}
