// SPDX-License-Identifier: Apache-2.0

// Package perclient gives every client a port of its own on the network: a Server holds the sessions, a session joins one
// link with one port, and whatever goes wrong in a session ends or degrades that session only.
package perclient

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

const (
	// defaultMaxClients is how many clients are served at once.
	defaultMaxClients = 256

	// startDelay is how long a client may be silent before it gets a port. A connection that is closed earlier without a
	// frame, such as a health check, costs nothing.
	startDelay = 100 * time.Millisecond

	// storeDelay is how long after its first frame a client is stored: one that comes and goes cannot keep the service manager busy.
	storeDelay = time.Second

	// maxStarts is how many ports may be starting at once: each may take seconds.
	maxStarts = 4

	// maxRefusing is how many refused clients are drained at once; further ones have 2 ms.
	maxRefusing = 64

	// freeAfter is how many sessions must have ended before memory is given back, and freeDelay how long after that it is: clients
	// which come back at once find it in place, and each time is a garbage collection.
	freeAfter = 32
	freeDelay = 10 * time.Second

	// idTries and idPause are how often and at what distance a port is tried again whose interface id is in use.
	idTries = 10
	idPause = 50 * time.Millisecond
)

// retryDelays are the pauses between attempts to start a port; the last one repeats.
var retryDelays = []time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second,
}

// Options set up a Server.
type Options struct {
	Network    network.Network
	MaxClients int // 0 = defaultMaxClients
	QueueSize  int // bytes of a client's queue; 0 = link.DefaultQueueSize
	Log        *slog.Logger
	// Guard makes the guard of a client, of what another one's Save returned unless that is nil; nil, or a nil Guard, lets everything
	// pass. It must not block.
	Guard func(c Client, log *slog.Logger, saved []byte) Guard
	// Observer is told what guests' ARP and DHCP say; nil: it is not told.
	Observer observer
	// Store keeps copies of a client's descriptors, in place of those that it may have, for the case that this process is killed, and
	// Forget drops them; nil: they are not kept. Store is called a while after a client has sent a frame, by a goroutine of its session; of
	// v what attaches it again is set.
	Store  func(v *Detached)
	Forget func(id uint64)
}

// A Server serves clients.
type Server struct {
	opts   Options
	starts chan struct{} // semaphore of maxStarts
	refuse chan struct{} // semaphore of maxRefusing

	mu        sync.Mutex
	sessions  map[*Session]struct{}
	network   network.Network
	hold      <-chan struct{} // closed when the sessions that were attached last are read
	open      func()          // closes it
	lastID    uint64
	stopping  bool
	detaching bool // no new client is served
	running   sync.WaitGroup

	tap   atomic.Pointer[tap]
	gone  Totals // under mu
	ended int    // sessions since memory was given back; under mu

	startDelay time.Duration // the constant, but in some tests
	free       func()        // giveBack, but in a test
}

// NewServer makes a server without clients.
func NewServer(o Options) *Server {
	if o.MaxClients == 0 {
		o.MaxClients = defaultMaxClients
	}
	return &Server{
		opts:     o,
		starts:   make(chan struct{}, maxStarts),
		refuse:   make(chan struct{}, maxRefusing),
		sessions: map[*Session]struct{}{},
		network:  o.Network,

		hold: opened,
		open: func() {},

		startDelay: startDelay,
		free:       giveBack,
	}
}

// Handle serves conn as a new client, in a goroutine of its own. It takes conn over and never blocks. Above MaxClients the
// client is drained and closed.
func (s *Server) Handle(conn *net.UnixConn) {
	cl := Client{Peer: hostfs.PeerOf(conn)}
	l, err := link.NewStream(conn, link.StreamOptions{QueueSize: s.opts.QueueSize})
	if err != nil {
		s.opts.Log.Warn("client closed: its socket is unusable", "error", err)
		_ = conn.Close()
		return
	}
	if s.admit(l, cl) == nil {
		s.refuseOne(l)
	}
}

// Serve serves the client behind l, in goroutines of its own. It takes l over unless it fails, with ErrFull or ErrStopping,
// and never blocks.
func (s *Server) Serve(l link.Link, c Client) (*Session, error) {
	s.mu.Lock()
	stopping := s.stopping || s.detaching
	s.mu.Unlock()
	if stopping {
		return nil, ErrStopping
	}
	x := s.admit(l, c)
	if x == nil {
		s.warnRefused()
		return nil, ErrFull
	}
	return x, nil
}

// admit serves l if there is room, else it returns nil.
func (s *Server) admit(l link.Link, cl Client) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.opts.MaxClients || s.detaching {
		return nil
	}
	s.lastID++
	s.gone.Connects++
	return s.begin(newSession(s, s.lastID, l, cl, nil, nil))
}

// begin has c run. The caller holds mu.
func (s *Server) begin(c *Session) *Session {
	s.sessions[c] = struct{}{}
	if s.stopping { // it was still in the backlog
		c.shutdown(link.DrainStop)
	}
	s.running.Go(c.run)
	return c
}

// refuseOne turns a client away that is one too many.
func (s *Server) refuseOne(l link.Link) {
	s.warnRefused()
	select {
	case s.refuse <- struct{}{}:
		s.running.Go(func() {
			defer func() { <-s.refuse }()
			l.Drain()
			_ = l.Close()
		})
	default: // may be a reset to it, but nothing waits
		_ = l.Close()
	}
}

// warnRefused counts a refused client and logs it.
func (s *Server) warnRefused() {
	s.mu.Lock()
	s.gone.Refused++
	clients := len(s.sessions)
	s.mu.Unlock()
	s.opts.Log.Warn("client refused: there are as many clients as --max-clients allows", "clients", clients)
}

// remove forgets c, of which i is the last that is to be told.
func (s *Server) remove(c *Session, i Info) {
	s.mu.Lock()
	delete(s.sessions, c)
	s.gone.add(i)
	if s.ended++; s.ended == freeAfter {
		time.AfterFunc(freeDelay, s.giveMemoryBack)
	}
	s.mu.Unlock()
	if o := s.opts.Observer; o != nil {
		o.Gone(c.id)
	}
	if c.stored.Load() {
		s.opts.Forget(c.id)
	}
}

// giveMemoryBack gives memory back to the system after many clients have left. The data path makes no garbage, so the runtime
// would not collect what sessions leave behind, about 5 KB each, before there are megabytes of it: 64 clients that came and
// went eight times left 135 KiB per client that stayed.
func (s *Server) giveMemoryBack() {
	s.mu.Lock()
	s.ended = 0
	stopping := s.stopping
	s.mu.Unlock()
	if !stopping {
		s.free()
	}
}

func giveBack() {
	runtime.GC() // each collection halves stacks that have grown, and frees what the one before has only finished with
	debug.FreeOSMemory()
}

// Clients is how many clients are connected.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Stop makes all sessions end by link.DrainStop, and those that Handle is given from now on too.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.open()
	for c := range s.sessions {
		c.shutdown(link.DrainStop)
	}
}

// now is the network that a port is to be of.
func (s *Server) now() network.Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network
}

// Sessions are those of the clients that are served now.
func (s *Server) Sessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// Wait waits until every session has ended or ctx is done. Callers call Stop and end the accept loop first. It takes a
// little over link.DrainStop.Hard at most.
func (s *Server) Wait(ctx context.Context) {
	Await(ctx, &s.running)
}

// Await waits for all of a group, or until ctx is done.
func Await(ctx context.Context, all *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
