// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

func TestMain(m *testing.M) {
	// It hears of vmnet's handlers for as long as the process lives.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi.serveAnswers"))
}

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

// A logBook collects what is logged, all levels.
type logBook struct{ vnettest.Log }

// count is how many lines hold all of the words.
func (l *logBook) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func (l *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A rig is a network on a fake, or on the simulator.
type rig struct {
	*Network
	t    *testing.T
	fake *fake // nil on the simulator
	log  *logBook

	ended bool // by the test
}

// newRig starts a network that must start, and ends it with the test, or the bubble of synctest.
func newRig(t *testing.T, f *fake, o Options) *rig {
	t.Helper()
	o.API = f
	r := startRig(t, o)
	r.fake = f
	return r
}

func startRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, log: &logBook{}}
	o.Log = r.log.logger()
	n, err := New(context.Background(), o)
	require.NoError(t, err)
	r.Network = n
	t.Cleanup(r.end)
	return r
}

// end closes the network and checks that nothing is left.
func (r *rig) end() {
	r.t.Helper()
	if r.ended {
		return
	}
	assert.NoError(r.t, r.Close())
	if r.fake != nil {
		assert.Empty(r.t, r.fake.rules())
		assert.Empty(r.t, r.fake.running(), "interfaces left")
	}
	assert.NotContains(r.t, r.log.String(), "internal error")
	if r.t.Failed() {
		r.t.Log(r.log.String())
	}
}

// Close is for tests that look for themselves at what is left.
func (r *rig) Close() error {
	r.ended = true
	return r.Network.Close()
}

// A guest is a client of a rig.
type guest struct {
	network.Port
	r    *rig
	mac  []byte
	max  int
	hook func(frame.Batch) // before a batch is taken, may be nil

	mu  sync.Mutex
	got []string // payloads
}

// guestMACs begin with the same bytes.
func guestMAC(i byte) []byte { return []byte{2, 0, 0, 0, 0, i} }

// attach adds a guest whose address ends in i.
func (r *rig) attach(i byte) *guest {
	r.t.Helper()
	g, err := r.tryAttach(context.Background(), i)
	require.NoError(r.t, err)
	return g
}

func (r *rig) tryAttach(ctx context.Context, i byte) (*guest, error) {
	g := &guest{r: r, mac: guestMAC(i), max: frame.MaxStreamLen}
	return g, g.plug(ctx)
}

func (g *guest) plug(ctx context.Context) (err error) {
	g.Port, err = g.r.Attach(ctx, network.PortOptions{Name: fmt.Sprintf("guest %d", g.mac[5]), ID: fmt.Sprintf("id %d", g.mac[5])}, g)
	return err
}

func (g *guest) MaxFrame() int { return g.max }

func (g *guest) Deliver(b frame.Batch) {
	if g.hook != nil {
		g.hook(b)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		if bytes.Equal(it.Frame()[12:14], testType) {
			g.got = append(g.got, string(it.Frame()[14:]))
		}
	}
}

// testType is an EtherType for experiments.
var testType = []byte{0x88, 0xb5}

// broadcast is the address of all.
var broadcast = []byte{255, 255, 255, 255, 255, 255}

// to makes a frame.
func (g *guest) to(dst []byte, payload string) []byte {
	return slices.Concat(dst, g.mac, testType, []byte(payload))
}

func (g *guest) say(frames ...[]byte) {
	var buf []byte
	for _, f := range frames {
		buf = frame.Append(buf, f)
	}
	g.Send(frame.NewBatch(buf, len(frames)))
}

// heard are the payloads that came so far.
func (g *guest) heard() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.got)
}

func (g *guest) hears(payload string) bool { return slices.Contains(g.heard(), payload) }

// until waits for cond.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	require.Eventually(r.t, cond, patience, time.Millisecond, "%s\n%s", what, r.log)
}

// talk checks that two guests reach each other by unicast and broadcast. Frames may be lost before it, not from now on.
func (r *rig) talk(a, b *guest) {
	r.t.Helper()
	word := fmt.Sprintf("word %d", talks.Add(1))
	a.say(a.to(broadcast, word+" to all"))
	r.until("a broadcast", func() bool { return b.hears(word + " to all") })
	b.say(b.to(a.mac, word+" back"))
	r.until("the answer", func() bool { return a.hears(word + " back") })
	a.say(a.to(b.mac, word))
	r.until("unicast", func() bool { return b.hears(word) })
}

var talks atomic.Int64

// own is the running interface of a guest that has one; the anchor is the first of all.
func (r *rig) own(g *guest) *fakeInterface {
	r.t.Helper()
	for _, i := range r.fake.running() {
		if i.params.MAC.String() == g.Info().MAC.String() {
			return i
		}
	}
	require.Fail(r.t, "no interface", "%s shares the anchor", g.mac)
	return nil
}

// replaced waits until a guest has another interface of its own.
func (r *rig) replaced(g *guest, old *fakeInterface) {
	r.t.Helper()
	r.until("a new interface", func() bool {
		i := g.Port.(*port).own.Load()
		return i != nil && i.ifc != old
	})
	assert.EqualValues(r.t, 1, r.Status().Restarts)
}

// anchorOf is the running anchor.
func (r *rig) anchorOf() *fakeInterface {
	r.t.Helper()
	want := r.Status().Anchor.MAC.String()
	for _, i := range r.fake.running() {
		if i.params.MAC.String() == want {
			return i
		}
	}
	require.Fail(r.t, "no anchor")
	return nil
}

// busy is the error of a subnet in use.
func busy() error {
	return &api.CallError{Call: "vmnet_start_interface", Status: api.SharingServiceBusy}
}

// failure is the error of anything else.
func failure() error { return &api.CallError{Call: "vmnet_start_interface", Status: api.Failure} }
