// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// fakeGuard keeps back each frame that says so.
type fakeGuard struct {
	mu      sync.Mutex
	kept    uint64
	arrived []string
	closed  int
}

func (g *fakeGuard) Save() []byte { return nil }

func (g *fakeGuard) Filter(b frame.Batch, pass func(frame.Batch)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		if bytes.Contains(it.Frame(), []byte("forged")) {
			g.kept++
			continue
		}
		pass(frame.NewBatch(b.Bytes()[it.Offset():it.End()], 1))
	}
}

func (g *fakeGuard) ToClient(b frame.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		g.arrived = append(g.arrived, string(it.Frame()[frame.MinLen:]))
	}
}

func (g *fakeGuard) Drops() (uint64, []any) { return g.kept, []any{"drop_forged", g.kept} }

func (g *fakeGuard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed++
}

// TestGuard: a client's guard sees all that the client sends, also what waited for the port, and all that comes for it; it
// outlives the port, ends with the session, and its drops are in the summary. A client without one is not the slower.
func TestGuard(t *testing.T) {
	var g fakeGuard
	made := 0
	r := newRig(t, Options{Guard: func(_ Client, log *slog.Logger, saved []byte) Guard {
		assert.NotNil(t, log)
		assert.Nil(t, saved)
		if made++; made == 1 {
			return &g
		}
		return nil
	}})
	a := r.dial(t)
	r.attached(t, 1)
	b := r.dial(t)
	r.attached(t, 2)
	say(t, b, 2, "hello") // both have their ports when it arrives
	assert.Equal(t, "hello", hear(t, a))
	for _, s := range []string{"one", "forged", "two"} {
		say(t, a, 1, s)
	}
	assert.Equal(t, "one", hear(t, b))
	assert.Equal(t, "two", hear(t, b))
	say(t, b, 2, "forged, and let through")
	assert.Equal(t, "forged, and let through", hear(t, a))

	r.net.mu.Lock()
	died := r.net.ports[0].died
	r.net.mu.Unlock()
	close(died) // a's
	time.Sleep(20 * time.Millisecond)
	for _, s := range []string{"forged", "three"} { // they wait for the new port, unless this machine is very slow
		say(t, a, 1, s)
	}
	assert.Equal(t, "three", hear(t, b))
	eventually(t, func() bool { return r.net.attempts() == 3 })

	require.NoError(t, a.Close())
	eventually(t, func() bool { return r.Clients() == 1 })
	r.shutdown()
	_, all := r.Census()
	assert.EqualValues(t, 2, all.Spoofed)
	assert.Equal(t, 1, g.closed)
	assert.Equal(t, []string{"hello", "forged, and let through"}, g.arrived)
	assert.Contains(t, r.log.String(), "drop_forged=2")
}

// panicky panics once, in the place of a record, when it is armed.
type panicky struct {
	slog.Handler
	armed *atomic.Bool
}

func (h panicky) Handle(ctx context.Context, r slog.Record) error {
	if h.armed.CompareAndSwap(true, false) {
		panic("no log")
	}
	return h.Handler.Handle(ctx, r)
}

func (h panicky) WithAttrs(list []slog.Attr) slog.Handler {
	return panicky{h.Handler.WithAttrs(list), h.armed}
}

// TestGuardIsClosed so that its guest may come back, also of a client whose end panics, and of one that left before its port came.
func TestGuardIsClosed(t *testing.T) {
	for state, slow := range map[string]time.Duration{status.StateRunning: 0, status.StateStarting: time.Hour} {
		t.Run(state, func(t *testing.T) {
			var g fakeGuard
			var armed atomic.Bool
			log := slog.New(panicky{slog.NewTextHandler(t.Output(), nil), &armed})
			s := NewServer(Options{
				Network: &fakeNetwork{Bridge: bridge.New(bridge.Options{}), slow: slow}, Log: log,
				Guard: func(_ Client, _ *slog.Logger, saved []byte) Guard {
					assert.Equal(t, "saved", string(saved))
					return &g
				},
			})
			l := newFakeLink()
			require.Empty(t, s.Attach([]Detached{{ID: 7, Guard: []byte("saved")}}, func(*Detached) (link.Link, error) { return l, nil }))
			eventually(t, func() bool { return s.List()[0].State == state })
			armed.Store(slow == 0)
			l.end(io.EOF)
			eventually(t, func() bool { return s.Clients() == 0 })
			s.Stop()
			s.Wait(within(t))
			assert.False(t, armed.Load())
			assert.Equal(t, 1, g.closed)
		})
	}
}
