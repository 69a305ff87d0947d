// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/watch"
)

// maxAddressLogs is how many times the addresses of a client are logged at INFO when they change.
const maxAddressLogs = 4

// A Session is one client: its link, its port and its counters.
//
//	quiet --first frame or startDelay--> starting --port--> running --the port died--> starting
//	any state --the link ended--> closed
//
// Two goroutines belong to it: run, which is the link's reader, and keep, which starts the port and watches it.
type Session struct {
	srv     *Server
	id      uint64
	name    string
	client  Client
	link    link.Link
	log     *slog.Logger
	began   time.Time
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	wake    chan struct{} // closed when the port is wanted
	wakeOne sync.Once
	keeping sync.WaitGroup
	done    chan struct{}         // closed when nothing of the session runs any more
	reason  atomic.Pointer[error] // why End was called
	first   firstStart
	phase   phase
	pause   pauser
	rejoin  *gathering // nil when the session need not wait for others; used by the keeper

	watch    watch.Watch
	seen     bool        // a frame has come; used by the reader
	named    string      // the identity by which another process had its port started
	restored bool        // from another process, which has logged its begin
	addrLogs int         // used by the reader
	news     atomic.Bool // an answer of DHCP told an address that has not been logged

	// send is set while the port runs. Frames are sent by the reader; those held before that by the keeper, under mu.
	send atomic.Pointer[func(frame.Batch)]

	mu       sync.Mutex // held while what was held is sent, which a back end may hold up
	held     []byte     // frames in wire form that wait for the port
	heldN    int
	dropHeld atomic.Uint64 // frames dropped because held was full, or the client left before its port

	telling sync.Mutex // guards what follows; nobody waits while it is held
	guard   Guard      // nil: none; set by the keeper, which reads it without the lock
	live    vnet.Port  // whose counters are not in ports yet; nil: none
	ports   PortTotals // of the ports so far
}

func newSession(s *Server, id uint64, l link.Link, cl Client) *Session {
	cl.Transport = cmp.Or(cl.Transport, status.Stream)
	name := fmt.Sprintf("client %d", id)
	if cl.Name != "" {
		name += " (" + cl.Name + ")"
	}
	c := &Session{
		srv:    s,
		id:     id,
		name:   name,
		client: cl,
		link:   l,
		log:    s.opts.Log.With("client", id).With(cl.Log...),
		began:  time.Now(),
		wake:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	if cl.Name != "" {
		c.log = c.log.With("name", cl.Name)
	}
	c.first.init()
	if cl.Start {
		c.want()
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pause.init(c.ctx)
	return c
}

// run serves the client to its end.
func (c *Session) run() {
	defer c.over()
	removed := false
	defer func() {
		if r := recover(); r != nil {
			c.abandon(r, removed)
		}
	}()
	c.logBegin()
	c.keeping.Go(c.keep)
	err := c.read()
	c.phase.leaving.Store(true)
	if r := c.reason.Load(); r != nil && !left(err) {
		err = *r
	}
	c.logEnd(err)
	c.lastWords(err)
	// The port goes first: once it is closed nothing is delivered to the link any more.
	c.cancel()
	c.keeping.Wait()
	c.dropHeld.Add(uint64(c.heldN)) // what its port was not there for
	faults.Point("perclient.end")
	c.closeGuard()
	st := c.link.Stats()
	_ = c.link.Close()
	c.srv.remove(c, c.Info())
	removed = true
	c.summarise(err, st)
}

// abandon ends a session that could not be ended in order, since it panicked with r.
func (c *Session) abandon(r any, removed bool) {
	_ = c.panicked("ending the session", r)
	c.cancel()
	c.keeping.Wait()
	_ = c.link.Close()
	c.giveUpGuard()
	if !removed {
		c.srv.remove(c, Info{Peer: c.client.Peer})
	}
}

// over tells that nothing of the session is left.
func (c *Session) over() {
	close(c.done)
	if c.client.Ended != nil {
		c.client.Ended()
	}
}

// logBegin and logEnd write socket_vmnet's lines for a client of its socket, and a line with what is known for any other.
func (c *Session) logBegin() {
	if c.restored {
		return
	}
	if c.client.Transport != status.Stream {
		c.log.Info("serving a client")
		return
	}
	c.log.Info("accepted a connection", "fd", c.link.Fd())
	if who := c.client.Peer.Args(); who != nil { // socket_vmnet's line has no room for it
		c.log.Info("client connected", who...)
	}
}

func (c *Session) logEnd(err error) {
	if c.client.Transport != status.Stream {
		return // the summary follows
	}
	fd := c.link.Fd()
	if left(err) {
		c.log.Info("connection closed by peer", "fd", fd)
	}
	c.log.Info("closing a connection", "fd", fd)
}

// End ends the session in order; Done tells when nothing of it is left. reason is logged.
func (c *Session) End(reason error) {
	c.reason.CompareAndSwap(nil, &reason)
	c.shutdown(link.DrainOne)
}

// Done is closed when the session has ended.
func (c *Session) Done() <-chan struct{} { return c.done }

// left reports that err means that the client has gone by itself. One that is killed with frames unread makes a reset.
func left(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// read runs the link and turns a panic on this goroutine into the end of the session.
func (c *Session) read() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = c.panicked("reading from the client", r)
			c.link.Drain()
		}
	}()
	for {
		if err = c.link.Run(c); !c.stood(err) {
			return err
		}
	}
}

// panicked logs a recovered panic and returns it as an error.
func (c *Session) panicked(doing string, r any) error {
	c.log.Error("internal error: this client is closed, the others run on; please report it",
		"doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return fmt.Errorf("panic while %s: %v", doing, r)
}

// summarise logs how the session went.
func (c *Session) summarise(err error, st link.Stats) {
	level := slog.LevelInfo
	if left(err) && st.ToNetFrames+st.DropRunt == 0 && c.client.Transport == status.Stream {
		level = slog.LevelDebug // a probe
	} else if !left(err) && !errors.Is(err, link.ErrShutdown) && c.reason.Load() == nil {
		level = slog.LevelWarn
	}
	args := []any{"reason", err, "duration", time.Since(c.began).Round(time.Millisecond)}
	if c.client.Transport == status.Stream { // else it is in each line, where it is known
		args = append(args, c.client.Peer.Args()...)
	}
	if m := c.watch.MAC(); m != nil {
		args = append(args, "mac", m.String())
	}
	if ip := c.watch.IP(); ip.IsValid() {
		args = append(args, "ip", ip.String())
	}
	args = append(args, "frames_to_net", st.ToNetFrames, "bytes_to_net", st.ToNetBytes,
		"frames_to_client", st.ToClientFrames, "bytes_to_client", st.ToClientBytes)
	if st.Queued > 0 { // it left without reading them; they are among frames_to_client
		args = append(args, "bytes_unsent", st.Queued)
	}
	args = append(args, c.dropArgs(st)...)
	c.log.Log(context.Background(), level, "client gone", args...)
}

// dropArgs are the drops by reason, those that happened, in a fixed order.
func (c *Session) dropArgs(st link.Stats) (args []any) {
	_, spoofed := c.guardDrops()
	c.telling.Lock()
	defer c.telling.Unlock()
	for _, d := range []struct {
		reason vnet.DropReason
		n      uint64
	}{
		{"drop_queue_full", st.DropQueueFull},
		{"drop_runt", st.DropRunt},
		{"drop_long", st.DropLong},
		{"drop_foreign", st.DropForeign},
		{"drop_starting", c.dropHeld.Load() + st.DropStarting},
		{vnet.DropStorm, c.ports.Drops[vnet.DropStorm]},
		{vnet.DropOversize, c.ports.Drops[vnet.DropOversize]},
		{vnet.DropHairpin, c.ports.Drops[vnet.DropHairpin]},
		{vnet.DropIsolated, c.ports.Drops[vnet.DropIsolated]},
		{vnet.DropRefused, c.ports.Drops[vnet.DropRefused]},
		{vnet.DropExhausted, c.ports.Drops[vnet.DropExhausted]},
		{vnet.DropDown, c.ports.Drops[vnet.DropDown]},
		{"lost_oversize", c.ports.Lost[vnet.DropOversize] + st.DropOversize},
	} {
		if d.n > 0 {
			args = append(args, string(d.reason), d.n)
		}
	}
	return append(args, spoofed...)
}

// logAddresses logs what the watch has learned. A client may change its addresses with every frame, so it stops early.
func (c *Session) logAddresses() {
	if c.addrLogs >= maxAddressLogs {
		return
	}
	s := c.watch.Snapshot()
	if !s.IP.IsValid() { // the MAC address alone is not news: it comes with the IP address or in the summary
		return
	}
	c.addrLogs++
	args := []any{"mac", s.MAC.String(), "ip", s.IP.String()}
	if s.Hostname != "" {
		args = append(args, "hostname", s.Hostname)
	}
	c.log.Info("client address", args...)
}
