// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// hub is the plainest network: what one port sends, all others get.
type hub struct {
	mu     sync.Mutex
	ports  []*hubPort
	closed bool
	full   bool // refuses ports
}

var errFull = errors.New("the hub is full")

type hubPort struct {
	hub  *hub
	sink frame.Sink
	done chan struct{}
}

func (h *hub) Info() vnet.NetworkInfo { return vnet.NetworkInfo{MaxFrame: frame.MaxLen} }

func (h *hub) Attach(_ context.Context, _ vnet.PortOptions, sink frame.Sink) (vnet.Port, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, vnet.ErrClosed
	case h.full:
		return nil, errFull
	}
	p := &hubPort{hub: h, sink: sink, done: make(chan struct{})}
	h.ports = append(h.ports, p)
	return p, nil
}

func (h *hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, p := range h.ports {
		close(p.done)
	}
	h.ports = nil
	return nil
}

func (p *hubPort) Send(b frame.Batch) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	for _, q := range p.hub.ports {
		if q == p {
			continue
		}
		for it := b.Iter(); it.Next(); {
			if len(it.Frame()) <= q.sink.MaxFrame() {
				q.sink.Deliver(frame.NewBatch(bytes.Clone(b.Bytes()[it.Offset():it.End()]), 1))
			}
		}
	}
}

func (p *hubPort) Close() error {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	for i, q := range p.hub.ports {
		if p == q {
			p.hub.ports = append(p.hub.ports[:i:i], p.hub.ports[i+1:]...)
		}
	}
	return nil
}

func (p *hubPort) Info() vnet.PortInfo { return vnet.PortInfo{} }
func (p *hubPort) MACs() []vnet.MAC    { return nil }

func (p *hubPort) Stats() vnet.PortStats { return vnet.PortStats{} }
func (p *hubPort) Done() <-chan struct{} { return p.done }
func (p *hubPort) Err() error            { return vnet.ErrClosed }

// attach plugs a guest into n for the length of the test.
func attach(t *testing.T, n vnet.Network, o Options) *Guest {
	t.Helper()
	g, err := Attach(t.Context(), n, o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// plug plugs a guest into l for the length of the test.
func plug(t *testing.T, l Link, o Options) *Guest {
	t.Helper()
	g, err := New(l, o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// newHub makes a hub for the length of the test.
func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{}
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}
