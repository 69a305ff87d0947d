// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// guests are the names that come and go with their guests.
type guests interface {
	// Lookup is the address of the guest with that name, in lower case and without the domain.
	Lookup(name string) (netip.Addr, bool)
	// NameOf is the name of the guest with that address, "" if there is none.
	NameOf(ip netip.Addr) string
}

// local answers questions that do not leave the network, nil for others.
func (s *Server) local(q *dns.Msg) *dns.Msg {
	name := dns.CanonicalName(q.Question[0].Name)
	if a, ok := s.names[name]; ok {
		return addressAnswer(q, a, ttl)
	}
	if s.cfg.Domain != "" && dns.IsSubDomain(s.cfg.Domain, name) { // no other server can answer
		return s.guest(q, name)
	}
	if ip, ok := parseReverse(name); ok && s.cfg.Subnet.Contains(ip) {
		return s.reverse(q, ip)
	}
	if !s.cfg.Forward {
		return failure(q, dns.RcodeRefused)
	}
	return nil
}

// guest answers with the address of a guest. The domain itself exists and has no records.
func (s *Server) guest(q *dns.Msg, name string) *dns.Msg {
	if name == s.cfg.Domain {
		return failure(q, dns.RcodeSuccess)
	}
	if s.cfg.Guests != nil {
		if a, ok := s.cfg.Guests.Lookup(strings.TrimSuffix(name, "."+s.cfg.Domain)); ok {
			return addressAnswer(q, a, guestTTL)
		}
	}
	return failure(q, dns.RcodeNameError)
}

// addressAnswer is the answer to any question about one of our names: its address, or that there is no such record.
func addressAnswer(q *dns.Msg, a netip.Addr, ttl uint32) *dns.Msg {
	m := failure(q, dns.RcodeSuccess)
	question := q.Question[0]
	if a.IsValid() && (question.Qtype == dns.TypeA || question.Qtype == dns.TypeANY) {
		h := dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}
		m.Answer = []dns.RR{&dns.A{Hdr: h, A: a.AsSlice()}}
	}
	return m
}

// reverse answers with the names of an address of our subnet.
func (s *Server) reverse(q *dns.Msg, ip netip.Addr) *dns.Msg {
	var names []string
	for name, a := range s.names {
		if a == ip {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	ttl := uint32(ttl)
	if s.cfg.Guests != nil { // an address keeps its names no longer than a guest keeps its own
		ttl = guestTTL
		if name := s.cfg.Guests.NameOf(ip); name != "" {
			names = append(names, name+"."+s.cfg.Domain)
		}
	}
	if len(names) == 0 {
		return failure(q, dns.RcodeNameError)
	}
	m, question := failure(q, dns.RcodeSuccess), q.Question[0]
	if question.Qtype == dns.TypePTR || question.Qtype == dns.TypeANY {
		h := dns.RR_Header{Name: question.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}
		for _, name := range names {
			m.Answer = append(m.Answer, &dns.PTR{Hdr: h, Ptr: name})
		}
	}
	return m
}

// parseReverse reads the address out of a canonical d.c.b.a.in-addr.arpa.
func parseReverse(name string) (netip.Addr, bool) {
	rest, ok := strings.CutSuffix(name, ".in-addr.arpa.")
	if !ok {
		return netip.Addr{}, false
	}
	labels := strings.Split(rest, ".")
	slices.Reverse(labels)
	a, err := netip.ParseAddr(strings.Join(labels, "."))
	return a, err == nil && a.Is4()
}
