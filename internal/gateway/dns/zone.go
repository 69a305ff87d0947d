// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
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

// zone is our own names and addresses.
type zone struct {
	names  map[string]netip.Addr // canonical name → address
	subnet netip.Prefix
	domain string // of guests, canonical; "" = none
	guests guests // nil = there are none
}

// newZone checks the records.
func newZone(c Config) (zone, error) {
	z := zone{names: map[string]netip.Addr{}, subnet: c.Subnet, guests: c.Guests}
	if c.Domain != "" {
		z.domain = dns.CanonicalName(c.Domain)
	}
	for name, a := range c.Records {
		if _, ok := dns.IsDomainName(name); !ok || strings.Trim(name, ".") == "" {
			return zone{}, fmt.Errorf("add DNS record %s=%s: not a domain name", name, a)
		}
		z.names[dns.CanonicalName(name)] = a.Unmap()
	}
	return z, nil
}

// local answers questions that do not leave the network, nil for others.
func (s *Server) local(q *dns.Msg) *dns.Msg {
	question := q.Question[0]
	name := dns.CanonicalName(question.Name)
	if a, ok := s.zone.names[name]; ok {
		return addressAnswer(q, a, ttl)
	}
	if s.zone.inDomain(name) {
		return s.zone.guest(q, name)
	}
	if ip, ok := parseReverse(name); ok && s.zone.subnet.Contains(ip) {
		return s.zone.reverse(q, ip)
	}
	if !s.cfg.Forward {
		return failure(q, dns.RcodeRefused)
	}
	return nil
}

// inDomain tells whether name is the guests' domain or in it. No other server can answer such questions.
func (z zone) inDomain(name string) bool {
	return z.domain != "" && dns.IsSubDomain(z.domain, name)
}

// guest answers with the address of a guest. The domain itself exists and has no records.
func (z zone) guest(q *dns.Msg, name string) *dns.Msg {
	if name == z.domain {
		return failure(q, dns.RcodeSuccess)
	}
	if z.guests != nil {
		if a, ok := z.guests.Lookup(strings.TrimSuffix(name, "."+z.domain)); ok {
			return addressAnswer(q, a, guestTTL)
		}
	}
	return failure(q, dns.RcodeNameError)
}

// addressAnswer is the answer to any question about one of our names: its address, or that there is no such record.
func addressAnswer(q *dns.Msg, a netip.Addr, ttl uint32) *dns.Msg {
	m := failure(q, dns.RcodeSuccess)
	question := q.Question[0]
	h := dns.RR_Header{Name: question.Name, Class: dns.ClassINET, Ttl: ttl}
	switch {
	case a.Is4() && (question.Qtype == dns.TypeA || question.Qtype == dns.TypeANY):
		h.Rrtype = dns.TypeA
		m.Answer = []dns.RR{&dns.A{Hdr: h, A: a.AsSlice()}}
	case a.Is6() && (question.Qtype == dns.TypeAAAA || question.Qtype == dns.TypeANY):
		h.Rrtype = dns.TypeAAAA
		m.Answer = []dns.RR{&dns.AAAA{Hdr: h, AAAA: a.AsSlice()}}
	}
	return m
}

// reverse answers with the names of an address of our subnet.
func (z zone) reverse(q *dns.Msg, ip netip.Addr) *dns.Msg {
	question := q.Question[0]
	var names []string
	for name, a := range z.names {
		if a == ip {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if z.guests != nil && z.domain != "" {
		if name := z.guests.NameOf(ip); name != "" {
			names = append(names, name+"."+z.domain)
		}
	}
	if len(names) == 0 {
		return failure(q, dns.RcodeNameError)
	}
	m, ttl := failure(q, dns.RcodeSuccess), uint32(ttl)
	if z.guests != nil { // an address keeps its names no longer than a guest keeps its own
		ttl = guestTTL
	}
	if question.Qtype != dns.TypePTR && question.Qtype != dns.TypeANY {
		return m
	}
	for _, name := range names {
		m.Answer = append(m.Answer, &dns.PTR{
			Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}, Ptr: name,
		})
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
