// SPDX-License-Identifier: Apache-2.0

// Package dns is the name server of the embedded network. It answers its own names and forwards everything else to the
// host's resolvers. It sees messages, not packets: the gateway hands them in.
//
// The answers say what happened, because resolvers act on it: NXDOMAIN only if a resolver said so (or for an address of
// our own subnet and a name in the domain of the guests), SERVFAIL if no resolver could be asked, REFUSED for what is not served, so
// that a guest with a second network tries its other name servers.
package dns

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// timeout is how long the host's resolvers have for an answer, all attempts together.
	timeout = 5 * time.Second
	// maxPerClient is how many questions of one guest wait for the host's resolvers. More are not answered.
	maxPerClient = 64
	// maxInFlight is how many questions wait for the host's resolvers in all.
	maxInFlight = 1024
	// ttl of our own records in seconds.
	ttl = 60
	// guestTTL is that of guests' names, which end with their leases. dnsmasq has the same by default (--local-ttl).
	guestTTL = 0
	// tcpIdle is how long a TCP connection may be silent.
	tcpIdle = 10 * time.Second
	// maxQuery is the longest question taken over TCP, and maxTCP the longest answer given, in bytes.
	maxQuery, maxTCP = 4096, dns.MaxMsgSize - 1
)

// Config sets up a Server.
type Config struct {
	// Records are our own names, with the IPv4 address of each; the zero Addr is a name without one.
	Records map[string]netip.Addr
	// Subnet is the network's: questions for names of its addresses are not forwarded.
	Subnet netip.Prefix
	// Domain is where guests have names, and never forwarded; empty = nowhere. A record of the same name wins.
	Domain string
	// Guests are asked for names in Domain; nil = there are none.
	Guests guests
	// Forward turns on the host's resolvers. Without it everything but our own names is refused.
	Forward bool
	// ResolvConf is the file with the host's resolvers, which is read for each question; it may be missing or empty.
	ResolvConf string
	// Dial reaches the host's resolvers; nil = net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Server answers questions. Its methods may be called from several goroutines.
type Server struct {
	cfg   Config
	names map[string]netip.Addr // canonical name → address

	mu       sync.Mutex
	inFlight map[uint64]int // questions to the host's resolvers, by client
	total    int
}

// New makes a server.
func New(c Config) *Server {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.Domain != "" {
		c.Domain = dns.CanonicalName(c.Domain)
	}
	s := &Server{cfg: c, names: map[string]netip.Addr{}, inFlight: map[uint64]int{}}
	for name, a := range c.Records {
		s.names[dns.CanonicalName(name)] = a
	}
	return s
}

// HandleUDP answers a question that came in a datagram. It borrows query until it returns. reply is called at most once,
// before or after HandleUDP returns, with an answer of at most maxReply bytes; not at all if the question is none, or if
// too many are waiting.
func (s *Server) HandleUDP(client uint64, query []byte, maxReply int, reply func([]byte)) {
	s.handle(client, query, maxReply, reply, func(wait func()) { go wait() })
}

// ServeTCP answers the questions on a connection, one after the other, until the client is done or silent for too long. It
// does not close c.
func (s *Server) ServeTCP(client uint64, c net.Conn) {
	buf, framed := make([]byte, maxQuery), dns.Conn{Conn: c}
	for ok := true; ok; {
		_ = c.SetDeadline(time.Now().Add(tcpIdle))
		n, err := framed.Read(buf)
		ok = err == nil && s.handle(client, buf[:n], maxTCP, func(b []byte) { _, err = framed.Write(b) }, func(wait func()) { wait() }) && err == nil
	}
}

// handle answers a question; where that takes the host's resolvers, run is called with what waits for them. It reports false if the
// question deserves no answer, or too many are waiting.
func (s *Server) handle(client uint64, query []byte, maxReply int, reply func([]byte), run func(wait func())) bool {
	q, answer := s.parse(query)
	if q == nil {
		return false
	}
	if answer == nil {
		answer = s.local(q)
	}
	if answer != nil {
		s.send(q, answer, maxReply, reply)
		return true
	}
	if !s.acquire(client) {
		return false
	}
	run(func() {
		defer s.release(client)
		s.send(q, s.forward(q, maxReply == maxTCP), maxReply, reply)
	})
	return true
}

// acquire counts a question to the host's resolvers.
func (s *Server) acquire(client uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxInFlight || s.inFlight[client] >= maxPerClient {
		return false
	}
	s.total++
	s.inFlight[client]++
	return true
}

func (s *Server) release(client uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.inFlight[client]--; s.inFlight[client] <= 0 {
		delete(s.inFlight, client)
	}
}

// headerLen is the length of a DNS header in bytes.
const headerLen = 12

// parse checks a question. It returns the question, or the answer to a bad one, or neither for what deserves none.
func (s *Server) parse(b []byte) (q, answer *dns.Msg) {
	if len(b) < headerLen || b[2]&0x80 != 0 { // too short to answer, or an answer itself
		return nil, nil
	}
	q = new(dns.Msg)
	err := q.Unpack(b)
	rcode := dns.RcodeSuccess
	switch {
	case q.Opcode != dns.OpcodeQuery:
		rcode = dns.RcodeNotImplemented
	case err != nil, len(q.Question) != 1, len(q.Answer) > 0, len(q.Ns) > 0, len(q.Extra) > 2:
		rcode = dns.RcodeFormatError
	case q.Question[0].Qclass != dns.ClassINET:
		rcode = dns.RcodeRefused
	}
	if rcode == dns.RcodeSuccess {
		switch q.Question[0].Qtype {
		case dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILA, dns.TypeMAILB:
			rcode = dns.RcodeRefused
		case dns.TypeNone, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY:
			rcode = dns.RcodeFormatError
		default:
			return q, nil
		}
	}
	if err != nil { // the sections are not to be trusted
		q = &dns.Msg{MsgHdr: dns.MsgHdr{
			Id: binary.BigEndian.Uint16(b), Opcode: int(b[2]>>3) & 0xf, RecursionDesired: b[2]&1 != 0,
		}}
	}
	return q, failure(q, rcode)
}

// failure is an answer without records.
func failure(q *dns.Msg, rcode int) *dns.Msg {
	a := new(dns.Msg)
	a.SetReply(q)
	a.Rcode = rcode
	a.RecursionAvailable = true
	return a
}

// send packs the answer to q so that it fits, and passes it on.
func (s *Server) send(q, a *dns.Msg, maxReply int, reply func([]byte)) {
	size := dns.MinMsgSize
	opt := q.IsEdns0()
	if opt != nil {
		size = max(size, int(opt.UDPSize()))
	}
	if maxReply == maxTCP {
		size = maxReply
	}
	if opt != nil && a.IsEdns0() == nil {
		a.SetEdns0(uint16(min(maxReply, dns.DefaultMsgSize)), opt.Do())
	}
	a.Compress = true
	a.Truncate(min(size, maxReply))
	b, err := a.Pack()
	if err != nil || len(b) > maxReply {
		if b, err = failure(q, dns.RcodeServerFailure).Pack(); err != nil {
			return
		}
	}
	reply(b)
}
