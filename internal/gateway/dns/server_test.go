// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolver is a host's resolver for tests.
type resolver struct {
	port  string
	asked atomic.Int32
	rcode atomic.Int32 // answers everything with it, unless 0
}

// newResolver serves UDP and TCP on one port of the loopback. Names tell what it answers.
func newResolver(t testing.TB) *resolver {
	r := &resolver{}
	at := fmt.Sprintf("127.0.0.1:%d", vnettest.FreePort(t))
	pc, err := net.ListenPacket("udp4", at)
	require.NoError(t, err)
	_, r.port, _ = net.SplitHostPort(at)
	l, err := net.Listen("tcp4", at)
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for _, s := range []*dns.Server{{PacketConn: pc}, {Listener: l}} {
		s.Handler = dns.HandlerFunc(r.answer)
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() { _ = s.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return r
}

// dial reaches it at any address.
func (r *resolver) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+r.port)
}

func (r *resolver) answer(w dns.ResponseWriter, q *dns.Msg) {
	r.asked.Add(1)
	m := new(dns.Msg)
	m.SetReply(q)
	name := q.Question[0].Name
	_, tcp := w.RemoteAddr().(*net.TCPAddr)
	rr := func(s string) dns.RR { x, _ := dns.NewRR(s); return x }
	switch {
	case r.rcode.Load() != 0:
		m.Rcode = int(r.rcode.Load())
	case strings.HasPrefix(name, "silent."):
		return
	case strings.HasPrefix(name, "nx."):
		m.Rcode = dns.RcodeNameError
		m.Ns = []dns.RR{rr("test. 60 IN SOA a.test. b.test. 1 2 3 4 5")}
	case strings.HasPrefix(name, "servfail."):
		m.Rcode = dns.RcodeServerFailure
	case strings.HasPrefix(name, "other."):
		m.Question[0].Name = "another.test."
	case strings.HasPrefix(name, "big."):
		for i := range 200 {
			m.Answer = append(m.Answer, rr(fmt.Sprintf("big.test. 60 IN TXT \"%0100d\"", i)))
		}
		if !tcp {
			m.Answer, m.Truncated = nil, true
		}
	case strings.HasPrefix(name, "medium."): // more than 512, less than 1232 bytes
		for i := range 8 {
			m.Answer = append(m.Answer, rr(fmt.Sprintf("medium.test. 60 IN TXT \"%0100d\"", i)))
		}
	case q.Question[0].Qtype == dns.TypeMX:
		m.Answer = []dns.RR{rr(name + " 60 IN MX 10 mail.test.")}
	case q.Question[0].Qtype == dns.TypeA:
		m.Answer = []dns.RR{rr(name + " 60 IN A 198.51.100.7")}
	}
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(4096, opt.Do())
	}
	_ = w.WriteMsg(m)
}

func confFile(t testing.TB, content string) string {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func newServer(c Config) *Server {
	if c.Records == nil {
		c.Records = map[string]netip.Addr{
			"gateway.internal": netip.MustParseAddr("192.168.105.1"), "host.internal": netip.MustParseAddr("192.168.105.254"),
			"nowhere.internal": {},
		}
	}
	c.Subnet = netip.MustParsePrefix("192.168.105.0/24")
	return New(c)
}

const maxUDP = 1472

// ask sends a question over UDP; nil means no answer within d.
func ask(t testing.TB, s *Server, q *dns.Msg, d time.Duration) *dns.Msg {
	t.Helper()
	b, err := q.Pack()
	require.NoError(t, err)
	raw := askRaw(s, b, d)
	if raw == nil {
		return nil
	}
	require.LessOrEqual(t, len(raw), maxUDP)
	a := new(dns.Msg)
	require.NoError(t, a.Unpack(raw))
	require.Equal(t, q.Id, a.Id)
	require.True(t, a.Response)
	return a
}

func askRaw(s *Server, b []byte, d time.Duration) []byte {
	got := make(chan []byte, 1)
	s.HandleUDP(1, b, maxUDP, func(a []byte) { got <- a })
	select {
	case a := <-got:
		return a
	case <-time.After(d):
		return nil
	}
}

func question(name string, qtype uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(name, qtype)
}

func answers(m *dns.Msg) string {
	var s []string
	for _, rr := range m.Answer {
		s = append(s, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(s, " ")
}

// An answered question is what a server is asked and what it answers.
type answered struct {
	name  string
	q     string
	qtype uint16
	rcode int
	want  string
}

func checkAnswers(t *testing.T, s *Server, cases []answered) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, s, question(tt.q, tt.qtype), patience)
			require.NotNil(t, a)
			assert.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[a.Rcode])
			assert.Equal(t, tt.want, answers(a))
			assert.True(t, a.RecursionAvailable)
			assert.Equal(t, tt.q, a.Question[0].Name, "as it was asked")
		})
	}
}

// TestOwnNames asks no resolver: there is none.
func TestOwnNames(t *testing.T) {
	s := newServer(Config{Forward: true, ResolvConf: "/nonexistent/resolv.conf"})
	checkAnswers(t, s, []answered{
		{"gateway", "gateway.internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.1"},
		{"host", "host.internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.254"},
		{"any case", "HoSt.InTeRnAl.", dns.TypeA, dns.RcodeSuccess, "192.168.105.254"},
		{"no IPv6 address", "host.internal.", dns.TypeAAAA, dns.RcodeSuccess, ""},
		{"other type", "host.internal.", dns.TypeMX, dns.RcodeSuccess, ""},
		{"ours without an address", "nowhere.internal.", dns.TypeA, dns.RcodeSuccess, ""},
		{"any type", "host.internal.", dns.TypeANY, dns.RcodeSuccess, "192.168.105.254"},
		{"reverse", "254.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, "host.internal."},
		{"reverse, unknown", "9.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, ""},
		{"reverse, elsewhere", "8.8.8.8.in-addr.arpa.", dns.TypePTR, dns.RcodeServerFailure, ""},
		{"reverse, rubbish", "1.2.3.4.5.in-addr.arpa.", dns.TypePTR, dns.RcodeServerFailure, ""},
		{"the root", ".", dns.TypeNS, dns.RcodeServerFailure, ""},
	})
}

func TestForward(t *testing.T) {
	r := newResolver(t)
	s := newServer(Config{Forward: true, ResolvConf: confFile(t, "search x\nnameserver 127.0.0.1\n"), Dial: r.dial})
	edns := func(q *dns.Msg, size uint16) *dns.Msg { return q.SetEdns0(size, true) }
	tests := []struct {
		name      string
		q         *dns.Msg
		rcode     int
		want      string
		truncated bool
	}{
		{"A", question("example.com.", dns.TypeA), dns.RcodeSuccess, "198.51.100.7", false},
		{"keeps the case", question("ExAmPlE.com.", dns.TypeA), dns.RcodeSuccess, "198.51.100.7", false},
		{"MX", question("example.com.", dns.TypeMX), dns.RcodeSuccess, "10 mail.test.", false},
		{"no such record", question("example.com.", dns.TypeAAAA), dns.RcodeSuccess, "", false},
		{"no such name", question("nx.test.", dns.TypeA), dns.RcodeNameError, "", false},
		{"resolver fails", question("servfail.test.", dns.TypeA), dns.RcodeServerFailure, "", false},
		{"answer to another question", question("other.test.", dns.TypeA), dns.RcodeServerFailure, "", false},
		{"too long for UDP", question("big.test.", dns.TypeTXT), dns.RcodeSuccess, "", true},
		{"with EDNS", edns(question("example.com.", dns.TypeA), 4096), dns.RcodeSuccess, "198.51.100.7", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, s, tt.q, patience)
			require.NotNil(t, a)
			assert.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[a.Rcode])
			assert.Equal(t, tt.want, answers(a))
			assert.Equal(t, tt.truncated, a.Truncated)
			assert.Equal(t, tt.q.Question[0].Name, a.Question[0].Name)
			assert.Equal(t, tt.q.IsEdns0() != nil, a.IsEdns0() != nil)
		})
	}
	t.Run("fits with EDNS only", func(t *testing.T) {
		a := ask(t, s, question("medium.test.", dns.TypeTXT), patience)
		assert.True(t, a.Truncated)
		a = ask(t, s, edns(question("medium.test.", dns.TypeTXT), 1232), patience)
		assert.False(t, a.Truncated)
		assert.Len(t, a.Answer, 8)
	})
}

// TestNoResolvers: an empty or missing file, or one without usable lines, means SERVFAIL, never a panic or NXDOMAIN.
func TestNoResolvers(t *testing.T) {
	tests := []struct{ name, path string }{
		{"missing", "/nonexistent/resolv.conf"},
		{"no address", confFile(t, "nameserver\nnameserver dns.example\nnameserver 1.2.3\n")},
		{"a directory", t.TempDir()},
		{"one long line", confFile(t, strings.Repeat("x", 200_000))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(Config{Forward: true, ResolvConf: tt.path})
			assert.Equal(t, dns.RcodeServerFailure, ask(t, s, question("example.com.", dns.TypeA), patience).Rcode)
			assert.Equal(t, "192.168.105.1", answers(ask(t, s, question("gateway.internal.", dns.TypeA), patience)))
		})
	}
}

// TestResolvConfChanges: a laptop moves to another network.
func TestResolvConfChanges(t *testing.T) {
	r := newResolver(t)
	path := confFile(t, "")
	s := newServer(Config{Forward: true, ResolvConf: path, Dial: r.dial})
	require.Equal(t, dns.RcodeServerFailure, ask(t, s, question("example.com.", dns.TypeA), patience).Rcode)
	require.NoError(t, os.WriteFile(path, []byte("nameserver 127.0.0.1\n"), 0o600))
	assert.Eventually(t, func() bool {
		return ask(t, s, question("example.com.", dns.TypeA), patience).Rcode == dns.RcodeSuccess
	}, patience, 50*time.Millisecond)
}

func TestResolverList(t *testing.T) {
	path := confFile(t, "nameserver 1.1.1.1\nnameserver bad\nnameserver fe80::1%eth0\nnameserver ::1\nnameserver 2.2.2.2\n")
	assert.Equal(t, []string{"1.1.1.1", "fe80::1%eth0", "::1"}, resolvers(path))
}

// TestNextResolver: the second resolver answers when the first refuses connections, cannot be reached or fails.
func TestNextResolver(t *testing.T) {
	r := newResolver(t)
	bad := newResolver(t)
	for _, name := range []string{"refused", "unreachable", "SERVFAIL", "REFUSED"} {
		t.Run(name, func(t *testing.T) {
			bad.rcode.Store(int32(dns.StringToRcode[name]))
			s := newServer(Config{
				Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.2\nnameserver 127.0.0.1\n"),
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					switch {
					case strings.HasPrefix(address, "127.0.0.1:"):
						return r.dial(ctx, network, address)
					case name == "unreachable":
						return nil, errors.New("no route")
					case name == "refused":
						return new(net.Dialer).DialContext(ctx, network, "127.0.0.2:"+r.port) // nothing listens there
					}
					return bad.dial(ctx, network, address)
				},
			})
			assert.Equal(t, "198.51.100.7", answers(ask(t, s, question("example.com.", dns.TypeA), patience)))
		})
	}
}

// TestHostile: what is not one plain question gets the right refusal or none, and never more than a small answer.
func TestHostile(t *testing.T) {
	r := newResolver(t)
	s := newServer(Config{Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Dial: r.dial})
	change := func(f func(*dns.Msg)) []byte {
		m := question("example.com.", dns.TypeA)
		f(m)
		b, err := m.Pack()
		require.NoError(t, err)
		return b
	}
	good := change(func(*dns.Msg) {})
	rr, _ := dns.NewRR("a.b. 1 IN A 1.2.3.4")
	tests := []struct {
		name  string
		b     []byte
		rcode int // -1 = no answer
	}{
		{"11 bytes", good[:11], -1},
		{"an answer", change(func(m *dns.Msg) { m.Response = true }), -1},
		{"header only", good[:12], dns.RcodeFormatError},
		{"cut in the name", good[:16], dns.RcodeFormatError},
		{"no question", change(func(m *dns.Msg) { m.Question = nil }), dns.RcodeFormatError},
		{"two questions", change(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError},
		{"65535 questions", append(append([]byte{}, good[:4]...), append([]byte{0xff, 0xff}, good[6:]...)...), dns.RcodeFormatError},
		{"with an answer section", change(func(m *dns.Msg) { m.Answer = []dns.RR{rr} }), dns.RcodeFormatError},
		{"name that points to itself", append(append([]byte{}, good[:12]...), 0xc0, 12, 0, 1, 0, 1), dns.RcodeFormatError},
		{"UPDATE", change(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"CHAOS", change(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		{"AXFR", change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused},
		{"OPT as a question", change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeOPT }), dns.RcodeFormatError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.rcode < 0 {
				assert.Nil(t, askRaw(s, tt.b, 20*time.Millisecond))
				return
			}
			raw := askRaw(s, tt.b, patience)
			require.NotNil(t, raw)
			assert.Equal(t, tt.b[:2], raw[:2], "id")
			assert.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[int(raw[3]&0xf)])
			assert.LessOrEqual(t, len(raw), len(tt.b), "nothing to amplify with")
		})
	}
	assert.Zero(t, r.asked.Load(), "no resolver was asked")
}

// TestLimits: one guest's questions to a silent resolver do not keep another's from being asked.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := newServer(Config{
			Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if asked.Add(1) <= maxPerClient {
					<-ctx.Done()
				}
				return nil, errors.New("refused")
			},
		})
		b, err := question("silent.test.", dns.TypeA).Pack()
		require.NoError(t, err)
		for range 10 * maxPerClient {
			s.HandleUDP(7, b, maxUDP, func([]byte) {})
		}
		synctest.Wait()
		assert.EqualValues(t, maxPerClient, asked.Load())
		assert.Equal(t, dns.RcodeServerFailure, ask(t, s, question("example.com.", dns.TypeA), patience).Rcode)
		assert.Greater(t, asked.Load(), int32(maxPerClient), "another's is asked")
		time.Sleep(timeout)
		synctest.Wait()
		assert.Empty(t, s.inFlight, "all have an end")
	})
}

func TestTCP(t *testing.T) {
	r := newResolver(t)
	s := newServer(Config{Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Dial: r.dial})
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); s.ServeTCP(1, server); server.Close() }()
	c := &dns.Conn{Conn: client}
	for _, name := range []string{"host.internal.", "example.com.", "big.test."} {
		q := question(name, dns.TypeTXT)
		if name != "big.test." {
			q = question(name, dns.TypeA)
		}
		require.NoError(t, c.WriteMsg(q))
		a, err := c.ReadMsg()
		require.NoError(t, err)
		assert.Equal(t, dns.RcodeSuccess, a.Rcode)
		assert.False(t, a.Truncated)
		assert.NotEmpty(t, a.Answer, name)
	}
	_, err := client.Write([]byte{0xff, 0xff}) // a question of 65,535 bytes
	require.NoError(t, err)
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "closed by the server")
	<-done
}

// FuzzHandleUDP feeds any bytes: no panic, no answer to an answer, the id comes back.
func FuzzHandleUDP(f *testing.F) {
	for _, q := range []*dns.Msg{question("host.internal.", dns.TypeA), question("1.105.168.192.in-addr.arpa.", dns.TypePTR).SetEdns0(1232, true)} {
		b, _ := q.Pack()
		f.Add(b)
	}
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	web, _ := question("web.vmnet.internal.", dns.TypeA).Pack()
	f.Add(web)
	s := newServer(Config{Domain: "vmnet.internal", Guests: guestsByName{"web": "192.168.105.7"}})
	f.Fuzz(func(t *testing.T, b []byte) {
		s.HandleUDP(1, b, maxUDP, func(a []byte) {
			if len(a) < headerLen || len(a) > maxUDP || a[2]&0x80 == 0 || binary.BigEndian.Uint16(a) != binary.BigEndian.Uint16(b) {
				t.Fatalf("answer %x to %x", a, b)
			}
			if b[2]&0x80 != 0 {
				t.Fatal("answered an answer")
			}
		})
	})
}
