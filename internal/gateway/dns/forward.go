// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// attemptTimeout is how long one resolver has before the next is asked, as in common stub resolvers.
	attemptTimeout = 2 * time.Second
	// rounds is how often each resolver is asked.
	rounds = 2
	// maxResolvers is how many resolvers of the host's file are used, as in the C libraries.
	maxResolvers = 3
	// maxResolvConf is how much of that file is read, in bytes.
	maxResolvConf = 64 << 10
	// ednsSize is what we tell the host's resolvers that we take in a datagram, in bytes (DNS flag day 2020).
	ednsSize = 1232
)

// forward asks the host's resolvers, one after the other, and returns the first good answer, else the last bad one, else
// SERVFAIL.
func (s *Server) forward(q *dns.Msg, tcp bool) *dns.Msg {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	up := upstreamQuery(q)
	var bad *dns.Msg
	servers := resolvers(s.cfg.ResolvConf)
	for i, server := range slices.Repeat(servers, rounds) {
		if ctx.Err() != nil || bad != nil && i >= len(servers) {
			break
		}
		a, err := s.exchange(ctx, "udp", up, server)
		if err == nil && a.Truncated && tcp { // our client can take it whole
			a, err = s.exchange(ctx, "tcp", up, server)
		}
		if err != nil {
			continue
		}
		if a.Rcode != dns.RcodeServerFailure && a.Rcode != dns.RcodeRefused {
			return rewrite(q, a)
		}
		bad = a
	}
	if bad != nil {
		return rewrite(q, bad)
	}
	return failure(q, dns.RcodeServerFailure)
}

// upstreamQuery is what goes to the host's resolvers: the question and its flags, nothing else a guest may have put in.
func upstreamQuery(q *dns.Msg) *dns.Msg {
	up := new(dns.Msg)
	up.Id = dns.Id()
	up.RecursionDesired = q.RecursionDesired
	up.CheckingDisabled = q.CheckingDisabled
	up.AuthenticatedData = q.AuthenticatedData
	up.Question = q.Question
	if opt := q.IsEdns0(); opt != nil {
		up.SetEdns0(ednsSize, opt.Do())
	}
	return up
}

// rewrite makes the resolver's answer an answer to q.
func rewrite(q, a *dns.Msg) *dns.Msg {
	a.Id = q.Id
	a.Response = true
	a.RecursionDesired = q.RecursionDesired
	a.RecursionAvailable = true
	a.Question = q.Question
	if q.IsEdns0() == nil {
		a.Extra = slices.DeleteFunc(a.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	}
	return a
}

// resolvers are the addresses in the host's file, which changes when the host moves to another network. A missing, unreadable or
// empty file has none.
func resolvers(path string) (list []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	conf, err := dns.ClientConfigFromReader(io.LimitReader(f, maxResolvConf))
	if err != nil {
		return nil
	}
	for _, s := range conf.Servers {
		if a, err := netip.ParseAddr(s); err == nil && len(list) < maxResolvers {
			list = append(list, a.String())
		}
	}
	return list
}

// exchange asks one resolver.
func (s *Server) exchange(ctx context.Context, network string, q *dns.Msg, server string) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	c, err := s.cfg.Dial(ctx, network, net.JoinHostPort(server, "53"))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	client := dns.Client{Net: network, Timeout: attemptTimeout, UDPSize: dns.DefaultMsgSize}
	a, _, err := client.ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: c})
	if err != nil {
		return nil, err
	}
	if !a.Response || len(a.Question) != 1 || a.Question[0].Qtype != q.Question[0].Qtype ||
		!strings.EqualFold(a.Question[0].Name, q.Question[0].Name) {
		return nil, errors.New("answer to another question")
	}
	return a, nil
}
