// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// leasesFile is what macOS's bootpd would write, and has an entry for each request that passes record.
type leasesFile string

func (path leasesFile) record(s sent) int {
	if s.dhcp() {
		var parts []string
		for _, b := range s.Src {
			parts = append(parts, fmt.Sprintf("%x", b)) // without leading zeros, as bootpd does
		}
		if f, err := os.OpenFile(string(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = fmt.Fprintf(f, "{\n\tname=guest\n\tip_address=192.168.105.2\n\thw_address=1,%s\n\tlease=0x1\n}\n", strings.Join(parts, ":"))
			_ = f.Close()
		}
	}
	return 1
}

// A trial is a network, and what a report says of it.
type trial struct {
	name   string
	faults faults
	set    func(o *Options)
	want   string   // an outcome, a step, and a part of its text
	also   []string // steps that fail for the same reason
}

// trials show that each step can fail, that then what is wrong is told, and what is no fault of a network.
func trials(dir string) []trial {
	dhcpEnd := func(a string) func(*usernet.Options, int) {
		return func(o *usernet.Options, _ int) {
			o.Gateway, o.DHCPEnd = netip.MustParseAddr("192.168.105.1"), netip.MustParseAddr(a)
		}
	}
	noDHCP := func(o *usernet.Options, _ int) { o.DisableDHCP = true }
	noNAT := func(o *usernet.Options, _ int) { o.DisableNAT44 = true }
	moves := func(o *usernet.Options, opened int) {
		if opened > 1 {
			o.Gateway = netip.MustParseAddr("192.168.106.1")
		}
	}
	forgets := func(o *usernet.Options, opened int) {
		if opened > 1 {
			o.Leases = store{}
		}
	}
	isolate := func(_ *brokenPort, f []byte) []byte {
		if ofGuest(f[6:]) {
			return nil
		}
		return f
	}
	corrupt := func(s sent) int {
		if s.probe() {
			s.frame[len(s.frame)-1] ^= 1
		}
		return 1
	}
	broadcastProbe := func(s sent) bool { return s.probe() && s.broadcast() }
	back := func(what func(sent) bool) faults {
		return faults{stray: func(s sent, to *brokenPort) bool { return s.probe() && what(s) && to == s.from }}
	}
	flood := func(s sent, to *brokenPort) bool {
		return s.probe() && s.toGuest() && to != s.from && to.mac != [6]byte(s.frame[:6])
	}
	isolated := func(o *Options) { o.Isolated = true }
	noRouter := func(o *Options) { o.NoRouter = true }
	asked := func(o *Options) { o.SharingAsked = true }
	leases := leasesFile(filepath.Join(dir, "dhcpd_leases"))
	records := func(path string) func(*Options) { return func(o *Options) { o.LeasesFile = path } }
	failure := errors.New("does not close")
	var pings atomic.Int64
	return []trial{
		{"does not open again", faults{open: busy(2, 1000)}, nil, "fail reopen busy", nil}, // takes longest
		{"does not start", faults{open: busy(1, 1)}, nil, "fail open busy", nil},
		{"lies about its range", faults{info: func(i *network.Info) { i.DHCPEnd = netip.MustParseAddr("10.0.0.1") }}, nil, "fail info is not in the subnet", []string{"lease"}},
		{"no kind", faults{info: func(i *network.Info) { i.Backend = "" }}, nil, "fail info does not tell its kind", nil},
		{"one port", faults{ports: 1}, nil, "fail attach guest b: no more ports", nil},
		{"shared interfaces", faults{own: 2}, nil, "fail attach 1 of 3 guests have no interface of their own: limit", nil},
		{"shared interfaces, as asked", faults{own: 1}, asked, "pass attach sharing 2", nil},
		{"no lease", lose(sent.dhcp), nil, "fail lease guest a: DHCP DISCOVER: wait for a frame", nil},
		{"the same lease for all", faults{hear: sameAddress}, nil, "fail lease belongs to guest a already", []string{"arp", "ping", "unicast", "full-frame"}},
		{"no DHCP", faults{usernet: noDHCP}, nil, "pass lease no DHCP server, as the network tells", nil},
		{"no DHCP, and no lease to ask for again", faults{usernet: noDHCP}, nil, "skip same-lease guest a has no lease", nil},
		{"DHCP that it does not tell of", faults{info: func(i *network.Info) { i.DHCPStart, i.DHCPEnd = netip.Addr{}, netip.Addr{} }}, nil, "fail lease is offered by 192.168.105.1, though", nil},
		{"one address", faults{usernet: dhcpEnd("192.168.105.2")}, nil, "pass lease without_address 2, server 192.168.105.1", nil},
		{"two addresses, and no lease", faults{usernet: dhcpEnd("192.168.105.3"), send: times(0, sent.dhcp)}, nil, "fail lease guest a: ", nil},
		{"no way out", faults{usernet: noNAT}, nil, "fail lease the lease names no gateway, the network 192.168.105.1", nil},
		{"no way out, as asked", faults{usernet: noNAT}, noRouter, "pass lease server 192.168.105.1", nil},
		{"no ARP from the gateway", lose(func(s sent) bool { return s.ARPOp == fakeguest.ARPRequest && s.toGateway() }), nil, "fail arp guest a: resolve 192.168.105.1", []string{"ping", "full-frame"}},
		{"no ping", lose(sent.ping), nil, "fail ping 0 of 3 answered: guest a: ping 192.168.105.1", []string{"full-frame"}},
		{"some pings lost", lose(func(s sent) bool { return s.ping() && pings.Add(1)%7 == 0 }), nil, "fail ping of 22 answered", nil},
		{"unicast is lost", lose(sent.toGuest), nil, "fail unicast guest a: resolve 192.168.105.3", []string{"full-frame"}},
		{"unicast goes to all", faults{stray: flood}, nil, "fail unicast guest c got frames that were not for it", []string{"full-frame"}},
		{"unicast comes back", back(sent.toGuest), nil, "fail unicast that came back from guest a", []string{"full-frame"}},
		{"damaged", faults{send: corrupt}, nil, "fail unicast a frame arrived damaged, 0 of 10 were well", []string{"broadcast", "full-frame", "interfaces"}},
		{"twice", twice(sent.probe), nil, "fail unicast a frame arrived twice, 1 of 10 were well", []string{"broadcast", "full-frame"}},
		{"isolated", faults{hear: isolate}, isolated, "pass unicast nothing arrives, as isolation asks", nil},
		{"not isolated", faults{}, isolated, "fail unicast guest b got frames though guests are isolated", []string{"broadcast", "full-frame"}},
		{"broadcast that is not isolated", faults{}, isolated, "fail broadcast though guests are isolated", []string{"unicast", "full-frame"}},
		{"no broadcast", lose(broadcastProbe), nil, "fail broadcast to guest b: a frame did not arrive, 0 of 10 were well", []string{"interfaces"}},
		{"broadcast comes back", back(sent.broadcast), nil, "fail broadcast that came back from guest a", nil},
		{"one is deaf to broadcast", deaf(3), nil, "fail broadcast to guest c: a frame did not arrive, 0 of 10 were well", nil},
		{"short frames only", lose(func(s sent) bool { return s.toGuest() && len(s.frame) > 1400 }), nil, "fail full-frame a frame did not arrive, 0 of 10 were well", nil},
		{"recorded", faults{send: leases.record}, records(string(leases)), "pass recorded after_ms", nil},
		{"recorded by another run", faults{}, records("testdata/dhcpd_leases"), "fail recorded guest a, guest b, guest c not in testdata/dhcpd_leases", nil},
		{"no record", faults{}, records(filepath.Join(dir, "absent")), "fail recorded no such file", nil},
		{"no more than 8 ports", faults{ports: 8}, nil, "fail interfaces refuses port 9: no more ports", nil},
		{"5 interfaces", faults{own: 5}, nil, "pass interfaces started 12, own 5, first_failure limit, first_failure_at 5", nil},
		{"the tenth port is deaf", deaf(10), nil, "fail interfaces a broadcast does not reach port 10 of 12", nil},
		{"ports do not close", faults{portClose: failure}, nil, "fail interfaces close a port: does not close", nil},
		{"close fails", faults{close: failure}, nil, "fail close does not close", []string{"stop"}},
		{"does not open again for a while", faults{open: busy(2, 4)}, nil, "pass reopen tries 4, first_failure busy, ", nil},
		{"another subnet", faults{usernet: moves}, nil, "fail reopen another subnet: 192.168.106.0/24 with gateway 192.168.106.1, before", []string{"same-lease"}},
		{"forgets the guest", faults{usernet: forgets}, nil, "fail same-lease had 192.168.105.2/24 and has 192.168.105.", nil},
	}
}

// busy has the network not open from one time to another.
func busy(from, to int) func(int) error {
	return func(opened int) error {
		if opened >= from && opened <= to {
			return errors.New("busy")
		}
		return nil
	}
}

// check compares a report with what it should say.
func (tr *trial) check(t assert.TestingT, rep *report) {
	want, rest, _ := strings.Cut(tr.want, " ")
	step, part, _ := strings.Cut(rest, " ")
	verdict, code := passed, 0
	if outcome(want) == stepFailed {
		verdict, code = failed, 1
	}
	if step == "open" {
		verdict, code = noStart, 2
		assert.Equal(t, part, rep.Reason)
		assert.Equal(t, "the network did not start", stepOf(t, rep, "ping").Text)
	}
	assert.Equal(t, verdict, rep.Verdict)
	assert.Equal(t, code, rep.ExitCode())
	for _, s := range rep.Steps {
		switch {
		case s.Name == step:
			assert.Equal(t, outcome(want), s.Outcome)
			assert.Contains(t, s.Text, part)
		case s.Outcome == stepFailed && !slices.Contains(tr.also, s.Name):
			assert.Fail(t, "another step fails", "%s: %s", s.Name, s.Text)
		}
	}
}

// TestTrials runs several beside each other: they wait most of the time.
func TestTrials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := trials(dir)
	reports, said := make([]report, len(tests)), make([]complaints, len(tests))
	var wg sync.WaitGroup
	few := make(chan struct{}, 16)
	for i, tt := range tests {
		few <- struct{}{}
		wg.Go(func() {
			reports[i], said[i] = patiently(t.Context(), func() Options {
				o := quickly(opener(trials(dir)[i].faults)) // which count from 0 again
				o.Sharing = sharing
				if tt.set != nil {
					tt.set(&o)
				}
				return o
			}, tt.check)
			<-few
		})
	}
	wg.Wait()
	broken := []string{"stop"} // by what does not close
	for i, tt := range tests {
		if what := strings.Fields(tt.want); what[0] == string(stepFailed) {
			broken = append(broken, what[1])
		}
		t.Run(tt.name, func(t *testing.T) { assert.Empty(t, said[i], text(t, &reports[i])) })
	}
	slices.Sort(broken)
	assert.ElementsMatch(t, stepNames(), slices.Compact(broken), "each step can fail")
}
