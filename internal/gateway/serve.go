// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
)

// readSize is how much is read from the pair at once, in bytes.
const readSize = 256 << 10

// serve is the life of a gateway on its end of the pair, until the daemon closes the other one. It closes end.
func serve(end *os.File, hello Hello) error {
	c, err := net.FileConn(end)
	if err := errors.Join(err, end.Close()); err != nil {
		return err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return errors.Join(errors.New("the pair is no unix socket"), c.Close())
	}
	g, err := newGateway(conn, tuning{})
	if err != nil {
		return err
	}
	return g.serve(hello)
}

func newGateway(conn *net.UnixConn, t tuning) (*gateway, error) {
	p, err := PairOf(conn)
	if err != nil {
		return nil, err
	}
	p.takesFiles = true
	g := &gateway{tune: t, pair: p, in: queues{bySession: map[uint64]int{}}}
	g.out = newOutlet(frame.MaxLen, func(b []byte, wait bool) (int, error) { return p.WriteWire(nil, b, wait) }, &g.drops)
	g.log = slog.New(logger{out: g.out})
	return g, nil
}

func (g *gateway) serve(hello Hello) error {
	var sender sync.WaitGroup
	defer sender.Wait()
	defer g.pair.close()
	defer g.close()
	sender.Go(g.out.run)
	hello.Protocol = Protocol
	g.out.putMessage(KindHello, hello)
	parser := Parser{Frames: g.take, Message: g.message, MaxMessage: maxConfig}
	buf, have := make([]byte, readSize), 0
	for {
		n, err := g.pair.ReadWire(buf[have:], true)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the daemon: %w", err)
		}
		used, err := parser.Parse(buf[:have+n])
		if err != nil {
			return fmt.Errorf("read from the daemon: %w", err)
		}
		g.in.handle(g.handleRun)
		have = copy(buf, buf[used:have+n])
		if have == len(buf) { // a long configuration
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// take sorts a run of frames into its session's queue. It stays in the read buffer.
func (g *gateway) take(b frame.Batch) error {
	if !g.started {
		return errors.New("frames before the start")
	}
	g.in.put(g.session, b)
	return nil
}

// queues hold what one read brought, by session, until it is handled with a turn for each.
type queues struct {
	bySession map[uint64]int // where in all
	all       []queue        // in the order in which the sessions came
}

type queue struct {
	session uint64
	runs    []frame.Batch
}

func (q *queues) put(session uint64, b frame.Batch) {
	i, ok := q.bySession[session]
	if !ok {
		i = len(q.all)
		q.bySession[session] = i
		if i < cap(q.all) {
			q.all = q.all[:i+1] // with its memory for runs
		} else {
			q.all = append(q.all, queue{})
		}
		q.all[i].session, q.all[i].runs = session, q.all[i].runs[:0]
	}
	q.all[i].runs = append(q.all[i].runs, b)
}

// handle passes one run of each session in turn to do, until all are handled.
func (q *queues) handle(do func(session uint64, b frame.Batch)) {
	for turn, more := 0, len(q.all) > 0; more; turn++ {
		more = false
		for i := range q.all {
			if s := &q.all[i]; turn < len(s.runs) {
				do(s.session, s.runs[turn])
				more = true
			}
		}
	}
	clear(q.bySession)
	q.all = q.all[:0]
}

// message does what the daemon says.
func (g *gateway) message(kind byte, body []byte) (err error) {
	if kind != kindSession {
		g.in.handle(g.handleRun) // what came before
	}
	switch kind {
	case KindConfig:
		return json.Unmarshal(body, &g.cfg)
	case KindLease:
		var l dhcp.Lease
		err = json.Unmarshal(body, &l)
		g.leases = append(g.leases, l)
	case KindForward:
		var number int
		if err = json.Unmarshal(body, &number); err == nil {
			err = g.takeForward(number)
		}
	case KindStart:
		return g.start()
	case kindSession:
		if len(body) != 8 {
			return errStream
		}
		g.session = binary.BigEndian.Uint64(body)
	case KindGone:
		var id uint64
		if err = json.Unmarshal(body, &id); err == nil {
			g.gone(id)
		}
	case KindAsk:
		var ask uint64
		err = json.Unmarshal(body, &ask)
		g.out.putMessage(KindAnswer, g.answer(ask))
	case KindAway:
		g.awake.sleep()
	case KindBack:
		g.awake.wake()
	}
	return err
}

func (g *gateway) takeForward(number int) error {
	socket := g.pair.takeFile()
	if socket == nil {
		return errors.New("a forward without a socket")
	}
	return g.fwd.add(g, number, socket)
}

// gone lets the flows of a session wait for the client's return.
func (g *gateway) gone(id uint64) {
	if g.engine != nil {
		g.engine.flows.guestGone(id)
	}
	if g.dhcp != nil {
		g.dhcp.PortGone(id)
	}
}

func (g *gateway) answer(ask uint64) Answer {
	a := Answer{Ask: ask, Stats: g.stats()}
	if g.dhcp != nil {
		a.Counters = g.dhcp.Stats()
		a.DHCPSize, a.DHCPLeased = g.dhcp.Usage()
	}
	return a
}

// awake is where those wait who would read from the host while no daemon reads the pair.
type awake struct {
	asleep atomic.Pointer[chan struct{}] // closed by wake; nil = awake
}

func (a *awake) sleep() {
	c := make(chan struct{})
	a.asleep.CompareAndSwap(nil, &c)
}

func (a *awake) wake() {
	if c := a.asleep.Swap(nil); c != nil {
		close(*c)
	}
}

func (a *awake) wait() {
	if c := a.asleep.Load(); c != nil {
		<-*c
	}
}

// logger is a slog.Handler whose lines the daemon logs.
type logger struct {
	out  *outlet
	args []string
}

// Enabled implements slog.Handler: the daemon decides.
func (l logger) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l logger) Handle(_ context.Context, r slog.Record) error {
	line := LogLine{Level: int(r.Level), Message: r.Message, Args: append([]string(nil), l.args...)}
	r.Attrs(func(a slog.Attr) bool {
		line.Args = append(line.Args, a.Key, a.Value.String())
		return true
	})
	l.out.putMessage(KindLog, line)
	return nil
}

// WithAttrs implements slog.Handler.
func (l logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.args = append([]string(nil), l.args...)
	for _, a := range attrs {
		l.args = append(l.args, a.Key, a.Value.String())
	}
	return l
}

// WithGroup implements slog.Handler. There are no groups.
func (l logger) WithGroup(string) slog.Handler { return l }
