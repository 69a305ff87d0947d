// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// lists waits until the only client is as what says, and returns it.
func (r *rig) lists(t testing.TB, what func(Info) bool) (i Info) {
	t.Helper()
	eventually(t, func() bool {
		list := r.List()
		if len(list) != 1 || !what(list[0]) {
			return false
		}
		i = list[0]
		return true
	})
	return i
}

func inState(state string) func(Info) bool { return func(i Info) bool { return i.State == state } }

// TestInfoOfAStreamClient: what is told of a client at each step of its life.
func TestInfoOfAStreamClient(t *testing.T) {
	r := newPatientRig(t, Options{QueueSize: 100 << 10}, time.Hour)
	r.net.set(2, 0)
	release := r.net.block()
	before := time.Now()
	c := r.dial(t)
	i := r.lists(t, inState(status.StateQuiet))
	assert.Equal(t, uint64(1), i.ID)
	assert.Equal(t, status.Stream, i.Transport)
	assert.Positive(t, i.FD)
	assert.Positive(t, i.Peer.PID)
	assert.True(t, i.Peer.Known)
	assert.Nil(t, i.MAC)
	assert.Nil(t, i.Port)
	assert.Equal(t, 100<<10, i.QueueLimit)
	assert.False(t, i.Began.Before(before))
	require.NoError(t, i.Err)

	say(t, c, 7, "hello")
	i = r.lists(t, func(i Info) bool { return i.State == status.StateStarting && i.Err != nil })
	assert.Contains(t, i.Err.Error(), "too many interfaces")
	assert.Equal(t, "02:00:00:00:00:07", i.MAC.String())
	release()
	i = r.lists(t, func(i Info) bool { return i.State == status.StateRunning && i.Ports.MACs == 1 })
	assert.NoError(t, i.Err, "that is over")
	assert.NotNil(t, i.Port)
	assert.Equal(t, uint64(1), i.Link.ToNetFrames)
	assert.Equal(t, uint64(frame.MinLen+5), i.Link.ToNetBytes)

	require.NoError(t, c.Close())
	eventually(t, func() bool { return len(r.List()) == 0 })
	r.shutdown() // the log is complete
	for _, what := range []string{"client connected", "client gone"} {
		assert.Regexp(t, what+`.* peer_uid=\d+ .*peer_pid=\d+`, r.log.String())
	}
}

// TestInfoOfALeavingClient: while the daemon drains it, it is there.
func TestInfoOfALeavingClient(t *testing.T) {
	r := newRig(t, Options{})
	l := newFakeLink()
	hold := make(chan struct{})
	x, err := r.Serve(&lastingLink{fakeLink: l, hold: hold}, Client{
		Name: "vm", Transport: status.PassedDatagram, Path: "/p", Via: "attach", Start: true,
	})
	require.NoError(t, err)
	i := r.lists(t, inState(status.StateRunning))
	assert.Equal(t, "vm", i.Name)
	assert.Equal(t, status.PassedDatagram, i.Transport)
	assert.Equal(t, "/p", i.Path)
	ended, err := r.Kick(x.id, errors.New("asked to"))
	require.NoError(t, err)
	r.lists(t, inState(status.StateLeaving))
	close(hold)
	<-ended
	assert.Empty(t, r.List())
	_, err = r.Kick(x.id, errors.New("asked to"))
	require.ErrorIs(t, err, ErrNoClient)
	r.shutdown()
	assert.Contains(t, r.log.String(), `reason="asked to"`)
}

// lastingLink is one whose Run does not end before hold is closed.
type lastingLink struct {
	*fakeLink
	hold chan struct{}
}

func (l *lastingLink) Run(h link.Handler) error {
	err := l.fakeLink.Run(h)
	<-l.hold
	return err
}

// countingPort is a port that has dropped as many frames as it is told.
type countingPort struct {
	drops atomic.Uint64
	died  chan struct{}
}

func (p *countingPort) Send(b frame.Batch)     { p.drops.Add(uint64(b.Len())) }
func (p *countingPort) Info() network.PortInfo { return network.PortInfo{Kind: network.InterfaceOwn} }
func (p *countingPort) Done() <-chan struct{}  { return p.died }
func (p *countingPort) Err() error             { return errors.New("interface gone") }
func (p *countingPort) Close() error           { return nil }
func (p *countingPort) MACs() []network.MAC    { return nil }

func (p *countingPort) Stats() network.PortStats {
	n := p.drops.Load()
	return network.PortStats{
		Drops: map[network.DropReason]uint64{network.DropStorm: n}, Lost: map[network.DropReason]uint64{network.DropOversize: 1},
		Moved: n, Unlearned: n, MACs: 3,
	}
}

// countingNetwork hands out such ports.
type countingNetwork struct {
	mu    sync.Mutex
	ports []*countingPort
}

func (n *countingNetwork) Info() network.Info { return network.Info{} }
func (n *countingNetwork) Close() error       { return nil }
func (n *countingNetwork) Attach(context.Context, network.PortOptions, frame.Sink) (network.Port, error) {
	p := &countingPort{died: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports = append(n.ports, p)
	return p, nil
}

func (n *countingNetwork) last() *countingPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ports[len(n.ports)-1]
}

// TestDropsOfPorts: those of the port that runs are told while it runs, those of former ones too, each once, and what is told
// never shrinks, whenever one asks.
func TestDropsOfPorts(t *testing.T) {
	r := newRig(t, Options{})
	n := &countingNetwork{}
	r.Network(n)
	c := r.dial(t)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		last := uint64(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, totals := r.Census()
			now := totals.Ports.Drops[network.DropStorm]
			assert.GreaterOrEqual(t, now, last, "drops are lost from sight")
			last = now
		}
	})
	const ports, each = 20, 10
	for i := range uint64(ports) {
		for k := range uint64(each) {
			say(t, c, 7, "dropped")
			r.lists(t, func(in Info) bool { return in.Ports.Drops[network.DropStorm] == i*each+k+1 })
		}
		close(n.last().died)
		r.lists(t, func(in Info) bool {
			return in.State == status.StateRunning && in.Ports.Lost[network.DropOversize] == i+2
		})
	}
	i := r.List()[0]
	assert.Equal(t, uint64(ports*each), i.Ports.Moved)
	assert.Equal(t, uint64(ports*each), i.Ports.Unlearned)
	assert.Equal(t, 3, i.Ports.MACs)
	assert.Equal(t, network.InterfaceOwn, i.Port.Kind)
	require.NoError(t, c.Close())
	eventually(t, func() bool { return r.Clients() == 0 })
	close(stop)
	asking.Wait()
	_, totals := r.Census()
	assert.Equal(t, uint64(ports*each), totals.Ports.Drops[network.DropStorm])
	assert.Equal(t, uint64(ports*each), totals.Link.ToNetFrames)
}

// stuckLink is one whose client hangs: deliveries do not come back.
type stuckLink struct {
	*fakeLink
	entered chan struct{}
	hold    chan struct{}
	once    sync.Once
}

func (l *stuckLink) Deliver(frame.Batch) {
	l.once.Do(func() { close(l.entered) })
	<-l.hold
}

// TestListDoesNotWait: not for a port that starts, not for a sink that hangs.
func TestListDoesNotWait(t *testing.T) {
	r := newRig(t, Options{})
	l := &stuckLink{fakeLink: newFakeLink(), entered: make(chan struct{}), hold: make(chan struct{})}
	stuck, err := r.Serve(l, Client{Start: true})
	require.NoError(t, err)
	_, err = stuck.Ready(within(t))
	require.NoError(t, err)
	a := r.dial(t)
	say(t, a, 1, "to all")
	<-l.entered

	r.net.set(0, time.Hour)
	b := r.dial(t)
	say(t, b, 2, "to all")
	var list []Info
	eventually(t, func() bool {
		list = r.List()
		return len(list) == 3 && list[2].State == status.StateStarting
	})
	assert.Equal(t, []uint64{1, 2, 3}, []uint64{list[0].ID, list[1].ID, list[2].ID})
	assert.Equal(t, status.StateRunning, list[0].State)
	assert.Equal(t, uint64(1), list[1].Link.ToNetFrames)
	close(l.hold)
}

// TestStalledClient: one that does not read is told from one that nothing is for.
func TestStalledClient(t *testing.T) {
	c := &Session{}
	c.phase.started.Store(true)
	c.send.Store(new(func(frame.Batch)))
	for _, tt := range []struct {
		stalled time.Duration
		want    string
	}{{0, status.StateRunning}, {stalledAfter - 1, status.StateRunning}, {stalledAfter, status.StateStalled}} {
		got, err := c.state(link.Stats{Stalled: tt.stalled})
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
}

// TestIdentity: the network is told the address of a guest that speaks first, again when it comes back, and nothing of one
// that is silent.
func TestIdentity(t *testing.T) {
	silent := newRig(t, Options{})
	silent.dial(t)
	silent.attached(t, 1)
	assert.Equal(t, []string{""}, silent.net.identities())
	r := newPatientRig(t, Options{}, time.Hour) // speaking first must not depend on the processor
	for i := range 2 {
		c := r.dial(t)
		say(t, c, 7, "hello")
		r.attached(t, i+1)
		_ = c.Close()
		eventually(t, func() bool { return r.Clients() == 0 })
	}
	assert.Equal(t, []string{"02:00:00:00:00:07", "02:00:00:00:00:07"}, r.net.identities())
}

// TestSummaryNamesDrops: what the network dropped is in the client's last line, in both directions.
func TestSummaryNamesDrops(t *testing.T) {
	c := &Session{}
	c.settle(network.PortStats{
		Drops: map[network.DropReason]uint64{network.DropRefused: 1, network.DropExhausted: 2, network.DropDown: 3},
		Lost:  map[network.DropReason]uint64{network.DropOversize: 4},
	}, nil)
	c.settle(network.PortStats{Lost: map[network.DropReason]uint64{network.DropOversize: 1}}, nil)
	assert.Equal(t, []any{
		"drop_refused", uint64(1), "drop_exhausted", uint64(2), "drop_down", uint64(3), "lost_oversize", uint64(12),
	}, c.dropArgs(link.Stats{DropOversize: 7}))
}
