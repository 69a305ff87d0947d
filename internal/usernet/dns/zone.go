// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// zone is our own names and addresses.
type zone struct {
	names  map[string]netip.Addr // canonical name → address
	subnet netip.Prefix
}

// newZone checks the records.
func newZone(records map[string]netip.Addr, subnet netip.Prefix) (zone, error) {
	z := zone{names: map[string]netip.Addr{}, subnet: subnet}
	for name, a := range records {
		if _, ok := dns.IsDomainName(name); !ok || strings.Trim(name, ".") == "" || !a.IsValid() {
			return zone{}, fmt.Errorf("add DNS record %s=%s: not a domain name and an IP address", name, a)
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
		return addressAnswer(q, a)
	}
	if ip, ok := parseReverse(name); ok && s.zone.subnet.Contains(ip) {
		return s.zone.reverse(q, ip)
	}
	if !s.cfg.Forward {
		return failure(q, dns.RcodeRefused)
	}
	return nil
}

// addressAnswer is the answer to any question about one of our names: its address, or that there is no such record.
func addressAnswer(q *dns.Msg, a netip.Addr) *dns.Msg {
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
	if len(names) == 0 {
		return failure(q, dns.RcodeNameError)
	}
	m := failure(q, dns.RcodeSuccess)
	if question.Qtype != dns.TypePTR && question.Qtype != dns.TypeANY {
		return m
	}
	slices.Sort(names)
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
