// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// guestsByName are Guests for tests.
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

// TestGuests never asks anybody, although there is a resolver that would answer.
func TestGuests(t *testing.T) {
	r := newResolver(t)
	s := newServer(t, Config{
		Domain: "vmnet.internal", Guests: guestsByName{"web": "192.168.105.7", "shadowed": "192.168.105.8", "host": "192.168.105.254"},
		Records: map[string]netip.Addr{
			"shadowed.vmnet.internal": netip.MustParseAddr("10.0.0.1"), "host.internal": netip.MustParseAddr("192.168.105.254"),
		},
		Forward: true, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Port: r.port,
	})
	for _, tt := range []struct {
		name  string
		q     string
		qtype uint16
		rcode int
		want  string
	}{
		{"guest", "web.vmnet.internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.7"},
		{"any case", "WeB.VMnet.Internal.", dns.TypeA, dns.RcodeSuccess, "192.168.105.7"},
		{"no IPv6 address", "web.vmnet.internal.", dns.TypeAAAA, dns.RcodeSuccess, ""},
		{"other type", "web.vmnet.internal.", dns.TypeMX, dns.RcodeSuccess, ""},
		{"a record wins", "shadowed.vmnet.internal.", dns.TypeA, dns.RcodeSuccess, "10.0.0.1"},
		{"nobody", "nobody.vmnet.internal.", dns.TypeA, dns.RcodeNameError, ""},
		{"nobody, IPv6", "nobody.vmnet.internal.", dns.TypeAAAA, dns.RcodeNameError, ""},
		{"below a guest", "a.web.vmnet.internal.", dns.TypeA, dns.RcodeNameError, ""},
		{"a dot in the label", `a\.web.vmnet.internal.`, dns.TypeA, dns.RcodeNameError, ""},
		{"a byte in the label", `web\000.vmnet.internal.`, dns.TypeA, dns.RcodeNameError, ""},
		{"the domain", "vmnet.internal.", dns.TypeSOA, dns.RcodeSuccess, ""},
		{"another domain that ends so", "xvmnet.internal.", dns.TypeMX, dns.RcodeSuccess, "10"},
		{"reverse", "7.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, "web.vmnet.internal."},
		{"reverse, record first", "254.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, "host.internal. host.vmnet.internal."},
		{"reverse, other type", "7.105.168.192.in-addr.arpa.", dns.TypeA, dns.RcodeSuccess, ""},
		{"reverse, nobody", "9.105.168.192.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := r.asked.Load()
			a := ask(t, s, question(tt.q, tt.qtype), patience)
			require.NotNil(t, a)
			assert.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[a.Rcode])
			if tt.want == "10" {
				assert.Greater(t, r.asked.Load(), asked, "forwarded")
				return
			}
			assert.Equal(t, tt.want, answers(a))
			assert.Equal(t, asked, r.asked.Load(), "not forwarded")
			assert.True(t, a.RecursionAvailable)
			assert.Equal(t, tt.q, a.Question[0].Name, "as it was asked")
			for _, rr := range a.Answer {
				if tt.name != "a record wins" {
					assert.Zero(t, rr.Header().Ttl)
				}
			}
		})
	}
}

// TestNoGuests: the domain is ours also when nobody is in it, with and without resolvers.
func TestNoGuests(t *testing.T) {
	r := newResolver(t)
	for _, forward := range []bool{true, false} {
		s := newServer(t, Config{Domain: "vmnet.internal.", Forward: forward, ResolvConf: confFile(t, "nameserver 127.0.0.1\n"), Port: r.port})
		assert.Equal(t, dns.RcodeNameError, ask(t, s, question("web.vmnet.internal.", dns.TypeA), patience).Rcode)
		assert.Equal(t, dns.RcodeSuccess, ask(t, s, question("vmnet.internal.", dns.TypeA), patience).Rcode)
	}
	assert.Zero(t, r.asked.Load())
}
