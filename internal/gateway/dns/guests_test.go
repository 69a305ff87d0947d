// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
)

// guestsByName are guests for tests.
type guestsByName map[string]string

func (g guestsByName) Lookup(name string) (netip.Addr, bool) {
	ip, ok := g[name]
	if !ok {
		return netip.Addr{}, false
	}
	return netip.MustParseAddr(ip), true
}

func (g guestsByName) NameOf(ip netip.Addr) string {
	for name, a := range g {
		if a == ip.String() {
			return name
		}
	}
	return ""
}

// TestGuests asks no resolver, although there is one that would answer.
func TestGuests(t *testing.T) {
	r := newResolver(t)
	s := newServer(Config{
		Domain: "vmnet.internal", Guests: guestsByName{"web": "192.168.105.7", "shadowed": "192.168.105.8", "host": "192.168.105.254"},
		Records: map[string]netip.Addr{
			"shadowed.vmnet.internal": netip.MustParseAddr("10.0.0.1"), "host.internal": netip.MustParseAddr("192.168.105.254"),
		},
		Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Dial: r.dial,
	})
	checkAnswers(t, s, []answered{
		{"guest", "web.vmnet.internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.7"},
		{"any case", "WeB.VMnet.Internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.7"},
		{"no IPv6 address", "web.vmnet.internal.", dns.TypeAAAA, dns.RcodeSuccess, ""},
		{"a record wins", "shadowed.vmnet.internal.", dns.TypeA, dns.RcodeSuccess, "10.0.0.1"},
		{"no guest", "nobody.vmnet.internal.", dns.TypeA, dns.RcodeNameError, ""},
		{"below a guest", "a.web.vmnet.internal.", dns.TypeA, dns.RcodeNameError, ""},
		{"a dot in the label", `a\.web.vmnet.internal.`, dns.TypeA, dns.RcodeNameError, ""},
		{"a byte in the label", `web\000.vmnet.internal.`, dns.TypeA, dns.RcodeNameError, ""},
		{"the domain", "vmnet.internal.", dns.TypeSOA, dns.RcodeSuccess, ""},
		{"reverse", "7.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, "web.vmnet.internal."},
		{"reverse, record first", "254.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, "host.internal. host.vmnet.internal."},
		{"reverse, no guest", "9.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, ""},
	})
	assert.Zero(t, ask(t, s, question("web.vmnet.internal.", dns.TypeA), patience).Answer[0].Header().Ttl)
	empty := newServer(Config{Domain: "vmnet.internal.", Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Dial: r.dial})
	checkAnswers(t, empty, []answered{
		{"there is none", "web.vmnet.internal.", dns.TypeA, dns.RcodeNameError, ""},
		{"the domain is ours all the same", "vmnet.internal.", dns.TypeA, dns.RcodeSuccess, ""},
	})
	assert.Zero(t, r.asked.Load())
	assert.NotEmpty(t, answers(ask(t, s, question("xvmnet.internal.", dns.TypeMX), patience)), "another domain that ends so")
}
