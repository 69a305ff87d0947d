// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
)

// newGateway makes a gateway on its end of the pair, which it closes.
func newGateway(end *os.File, t tuning) (*gateway, error) {
	c, err := net.FileConn(end)
	if err := errors.Join(err, end.Close()); err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the pair is not a unix socket")
	}
	p, err := PairOf(conn, nil)
	if err != nil {
		return nil, err
	}
	p.oob = make([]byte, 256)
	t.dialTimeout, t.udpIdle, t.returnTime = cmp.Or(t.dialTimeout, dialTimeout), cmp.Or(t.udpIdle, udpIdleTimeout), cmp.Or(t.returnTime, returnTime)
	if t.dial == nil {
		t.dial = new(net.Dialer).DialContext
	}
	g := &gateway{tune: t, pair: p, begins: map[uint64]*rate.Limiter{}}
	g.trim = time.AfterFunc(time.Hour, func() {
		runtime.GC() // pools keep theirs over one collection
		debug.FreeOSMemory()
	})
	g.out = newOutlet(frame.MaxLen, func(b []byte, wait bool) (int, error) { return p.WriteWire(nil, b, wait) }, &g.drops)
	g.log = slog.New(logger{slog.DiscardHandler, g.out})
	return g, nil
}

// serve is the life of a gateway on its end of the pair, until the daemon closes the other one. Then the process is to end: nothing
// else is closed here.
func (g *gateway) serve(hello Hello, unconfined error) error {
	debug.SetMemoryLimit(memoryLimit)
	go g.out.run()
	hello.Protocol = Protocol
	g.out.putMessage(KindHello, hello)
	if unconfined != nil {
		g.log.Warn("the gateway's process has more rights than it needs", "error", unconfined)
	}
	parser := Parser{Frames: g.take, Message: g.message, MaxMessage: maxConfig}
	for {
		if err := g.pair.Receive(&parser); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read from the daemon: %w", err)
		}
	}
}

// take handles a run of frames of one session.
func (g *gateway) take(b frame.Batch) error {
	if !g.started {
		return errors.New("frames before the start")
	}
	it := b.Iter()
	for it.Next() {
		g.handle(g.session, it.Frame())
	}
	g.flush(g.session)
	for g.handled += b.Len(); g.handled >= HandledFrames; g.handled -= HandledFrames {
		g.out.putMessage(KindHandled, nil)
	}
	return nil
}

// message does what the daemon says.
func (g *gateway) message(kind byte, body []byte) error {
	if !g.started && kind != KindConfig && kind != KindLease && kind != KindStart {
		return errStream
	}
	switch kind {
	case KindConfig:
		return json.Unmarshal(body, &g.cfg)
	case KindLease:
		return Take(body, func(l dhcp.Lease) error { g.leases = append(g.leases, l); return nil })
	case KindForward:
		return Take(body, g.takeForward)
	case KindStart:
		return g.start()
	case kindSession:
		if len(body) != 8 {
			return errStream
		}
		g.session = binary.BigEndian.Uint64(body)
	case KindGone:
		return Take(body, g.gone)
	case KindAsk:
		return Take(body, g.answer)
	case KindAway, KindBack:
		g.awake.set(kind == KindBack)
	}
	return nil
}

// gone lets the flows of a session wait for the client's return.
func (g *gateway) gone(id uint64) error {
	g.engine.flows.guestGone(id, g.tune.returnTime)
	delete(g.begins, id)
	g.trim.Reset(2 * returnTime)
	if g.dhcp != nil {
		g.dhcp.PortGone(id)
	}
	return nil
}

// answer answers a question, which comes every few seconds.
func (g *gateway) answer(ask uint64) error {
	g.engine.flows.sweep(g.tune.udpIdle)
	d := &g.drops
	a := Answer{Ask: ask, Stats: stats{Unwanted: d.unwanted.Load(), Malformed: d.malformed.Load(), OutFull: d.outFull.Load()}}
	a.Stats.TCPFlows, a.Stats.UDPFlows = g.engine.flows.counts()
	if g.dhcp != nil {
		a.Counters, a.DHCPSize, a.DHCPLeased = g.dhcp.Stats()
	}
	g.out.putMessage(KindAnswer, a)
	return nil
}

// awake is where those wait that would read from the host while no daemon reads the pair: then it is locked.
type awake struct {
	sync.RWMutex
	asleep bool // touched by the gateway's goroutine only
}

// set locks or unlocks it. A daemon that could not say that it goes away says all the same that it is back.
func (a *awake) set(awake bool) {
	switch {
	case a.asleep && awake:
		a.Unlock()
	case !a.asleep && !awake:
		a.Lock()
	}
	a.asleep = !awake
}

func (a *awake) wait() {
	a.RLock()
	defer a.RUnlock()
}

// logger is a slog.Handler whose lines the daemon logs.
type logger struct {
	slog.Handler // has no groups, and no attributes of its own
	out          *outlet
}

// Enabled implements slog.Handler: the daemon decides.
func (l logger) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l logger) Handle(_ context.Context, r slog.Record) error {
	line := LogLine{Level: int(r.Level), Message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line.Args = append(line.Args, a.Key, a.Value.String())
		return true
	})
	l.out.putMessage(KindLog, line)
	return nil
}
