// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

func TestMain(m *testing.M) {
	if code, ran := gateway.Main("test"); ran { // of a network in this process
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func TestGoodNetwork(t *testing.T) {
	for _, mode := range []network.Mode{network.ModeShared, network.ModeHost} {
		t.Run(string(mode), func(t *testing.T) {
			var told []string
			judge(t, func() Options {
				o := quickly(opener(faults{mode: mode}))
				o.Environment = Facts{{"version", "v1"}, {"uid", 0}}
				o.Describe = func(network.Network) Facts { return Facts{{"api", "network"}} }
				told = nil
				o.OnStep = func(s Step) { told = append(told, s.Name) }
				return o
			}, func(t assert.TestingT, rep *report) {
				assert.Equal(t, passed, rep.Verdict)
				assert.Zero(t, rep.ExitCode())
				assert.Equal(t, StepNames(), told)
				assert.Equal(t, len(steps)-1, rep.Passed)
				assert.Equal(t, 1, rep.Skipped, "only macOS records leases")
				assert.Equal(t, stepSkipped, outcomes(rep)["recorded"])
				assert.Equal(t, "network", rep.Network.value("api"))
				assert.Equal(t, "192.168.105.0/24", rep.Network.value("subnet"))
				assert.Equal(t, 12, stepOf(t, rep, "interfaces").Values.value("own"))
				assert.Equal(t, "reboot", stepOf(t, rep, "same-lease").Values.value("how"))
				assert.Equal(t, 1514, stepOf(t, rep, "full-frame").Values.value("frame_bytes"))
				assert.Contains(t, stepOf(t, rep, "throughput").Text, "frame_bytes 1514, sent ")
			})
		})
	}
}

// TestBrokenNetworks: for each step there is a network on which it fails, and what is wrong is told.
func TestBrokenNetworks(t *testing.T) {
	tests := []struct {
		name   string
		faults faults
		step   string
		text   string
		also   []string // steps that fail for the same reason
	}{
		{"lies about its range", faults{wrongRange: true}, "info", "is not in the subnet", []string{"lease"}},
		{"no kind", faults{noKind: true}, "info", "does not tell its kind", nil},
		{"one port", faults{maxPorts: 1}, "attach", "guest b: no more ports", nil},
		{"shared interfaces", faults{ownPorts: 2}, "attach", "1 of 3 guests have no interface of their own: limit", nil},
		{"no lease", faults{noLease: true}, "lease", "guest a: DHCP DISCOVER: wait for a frame", nil},
		{"the same lease for all", faults{sameLease: true}, "lease", "belongs to guest a already", []string{"arp", "ping", "unicast", "full-frame", "ping-load"}},
		{"no ARP from the gateway", faults{noARP: true}, "arp", "guest a: resolve 192.168.105.1", []string{"ping", "full-frame", "ping-load"}},
		{"no ping", faults{noPing: true}, "ping", "0 of 3 answered: guest a: ping 192.168.105.1", []string{"full-frame", "ping-load"}},
		{"some pings lost", faults{losePing: 7}, "ping", "of 22 answered", []string{}},
		{"unicast is lost", faults{loseUnicast: true}, "unicast", "guest a: resolve 192.168.105.3", []string{"full-frame", "throughput"}},
		{"unicast goes to all", faults{floodUnicast: true}, "unicast", "guest c got frames that were not for it", []string{"full-frame"}},
		{"unicast comes back", faults{mirrorUnicast: true}, "unicast", "that came back from guest a", []string{"full-frame"}},
		{"damaged", faults{corrupt: true}, "unicast", "a frame arrived damaged, 0 of 10 were well", []string{"broadcast", "full-frame", "interfaces"}},
		{"twice", faults{twice: true}, "unicast", "a frame arrived twice, 1 of 10 were well", []string{"broadcast", "full-frame", "throughput"}},
		{"no broadcast", faults{loseBroadcast: true}, "broadcast", "to guest b: a frame did not arrive, 0 of 10 were well", []string{"interfaces"}},
		{"broadcast comes back", faults{mirrorBroadcast: true}, "broadcast", "that came back from guest a", nil},
		{"one is deaf to broadcast", faults{deafPort: 3}, "broadcast", "to guest c: a frame did not arrive, 0 of 10 were well", nil},
		{"short frames only", faults{maxLen: 1400}, "full-frame", "a frame did not arrive, 0 of 10 were well", []string{"throughput"}},
		{"nothing at speed", faults{loseBatches: true}, "throughput", "none of", nil},
		{"too much at speed", faults{twiceBatches: true}, "throughput", "frames arrived of", nil},
		{"no pings under load", faults{loseLoadedPing: true}, "ping-load", "0 of", nil},
		{"no more than 8 ports", faults{maxPorts: 8}, "interfaces", "refuses port 9: no more ports", nil},
		{"the tenth port is deaf", faults{deafPort: 10}, "interfaces", "a broadcast does not reach port 10 of 12", nil},
		{"ports do not close", faults{portCloseError: true}, "interfaces", "close a port: does not close", nil},
		{"close fails", faults{closeError: true}, "close", "does not close", []string{"stop"}},
		{"does not open again", faults{opens: 1}, "reopen", "no network 2", nil},
		{"another subnet", faults{moves: true}, "reopen", "another subnet: 192.168.106.0/24 with gateway 192.168.106.1, before", []string{"same-lease"}},
		{"forgets the guest", faults{forgets: true}, "same-lease", "had 192.168.105.2/24 and has 192.168.105.", nil},
	}
	check := func(i int) func(t assert.TestingT, rep *report) {
		tt := tests[i]
		return func(t assert.TestingT, rep *report) {
			got := outcomes(rep)
			assert.Equal(t, failed, rep.Verdict)
			assert.Equal(t, 1, rep.ExitCode())
			assert.Equal(t, stepFailed, got[tt.step])
			assert.Contains(t, stepOf(t, rep, tt.step).Text, tt.text)
			for name, outcome := range got {
				if outcome == stepFailed && name != tt.step && !slices.Contains(tt.also, name) {
					assert.Fail(t, "another step fails", "%s: %s", name, stepOf(t, rep, name).Text)
				}
			}
		}
	}
	// They wait most of the time, so several run beside each other.
	reports, said := make([]report, len(tests)), make([]complaints, len(tests))
	var wg sync.WaitGroup
	few := make(chan struct{}, 16)
	for i, tt := range tests {
		few <- struct{}{}
		wg.Go(func() {
			reports[i], said[i] = patiently(t.Context(), func() Options {
				o := quickly(opener(tt.faults))
				o.Sharing = sharing
				return o
			}, check(i))
			<-few
		})
	}
	wg.Wait()
	broken := []string{"open", "recorded", "stop"} // by other tests, and by closeError
	for i, tt := range tests {
		broken = append(broken, tt.step)
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range said[i] {
				t.Error(s)
			}
			if t.Failed() {
				logText(t, &reports[i])
			}
		})
	}
	slices.Sort(broken)
	assert.ElementsMatch(t, StepNames(), slices.Compact(broken), "each step can fail")
}

func TestNoStart(t *testing.T) {
	rep := Run(t.Context(), quickly(func(context.Context) (network.Network, error) {
		return nil, errors.New("VMNET_NOT_AUTHORIZED (1010): this program may not use vmnet; run as root")
	}))
	assert.Equal(t, noStart, rep.Verdict)
	assert.Equal(t, 2, rep.ExitCode())
	assert.Contains(t, rep.Reason, "run as root")
	assert.Equal(t, 1, rep.Failed)
	assert.Equal(t, len(steps)-1, rep.Skipped)
	assert.Equal(t, "the network did not start", stepOf(t, &rep, "ping").Text)
	assert.Regexp(t, `\nverdict: no-start: 0 passed, 1 failed, 16 skipped in .* s: VMNET_NOT_AUTHORIZED .*; run as root\n$`, text(t, &rep))
}

// TestInterrupted ends the run in the middle of each of several steps: it comes back soon and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"open", "lease", "unicast", "throughput", "ping-load", "interfaces", "reopen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			// What the step waits for takes a minute.
			f := faults{slow: 100 * time.Millisecond, noLease: name == "lease", loseUnicast: name == "unicast"}
			o := quickly(opener(f))
			o.Answer, o.limit = time.Minute, time.Minute
			if name == "throughput" {
				o.Burst = time.Minute
			}
			before := "" // the step in front of it
			if i := slices.Index(StepNames(), name); i > 0 {
				before = steps[i-1].name
			}
			var at time.Time
			stop := func() {
				time.Sleep(50 * time.Millisecond)
				at = time.Now()
				cancel(errors.New("received signal interrupt"))
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			if before == "" {
				wg.Go(stop)
			}
			o.OnStep = func(s Step) {
				if s.Name == before {
					wg.Go(stop)
				}
			}
			rep := Run(ctx, o)
			wg.Wait()
			assert.Less(t, time.Since(at), 20*time.Second)
			assert.Equal(t, incomplete, rep.Verdict)
			assert.Equal(t, 1, rep.ExitCode())
			assert.Equal(t, "interrupted: received signal interrupt", rep.Reason)
			assert.Equal(t, stepSkipped, outcomes(&rep)["stop"])
			if !assert.Zero(t, rep.Failed) {
				logText(t, &rep)
			}
		})
	}
}

func TestOutOfTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	o := quickly(opener(faults{noLease: true}))
	o.Answer, o.limit = time.Minute, time.Minute
	start := time.Now()
	rep := Run(ctx, o)
	assert.Less(t, time.Since(start), 20*time.Second)
	assert.Equal(t, incomplete, rep.Verdict)
	assert.Equal(t, "out of time", rep.Reason)
	assert.Equal(t, "out of time", stepOf(t, &rep, "lease").Text)
}

// stuck is a network whose calls do not return before release.
type stuck struct {
	network.Network
	release chan struct{}
}

func (s stuck) Close() error {
	<-s.release
	return s.Network.Close()
}

// TestHang: a call that does not return ends the run within its step's limit, and nothing is touched any more.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		for _, tt := range []struct {
			step string
			open func(context.Context) (network.Network, error)
		}{
			{"open", func(context.Context) (network.Network, error) {
				<-release
				return nil, errors.New("too late")
			}},
			{"close", func(context.Context) (network.Network, error) { return stuck{nothing{}, release}, nil }},
		} {
			start := time.Now()
			rep := Run(t.Context(), quickly(tt.open))
			assert.Less(t, time.Since(start), 40*time.Second)
			s := stepOf(t, &rep, tt.step)
			assert.Equal(t, stepFailed, s.Outcome)
			assert.Contains(t, s.Text, "did not come back within")
			assert.Equal(t, tt.step+" did not come back", stepOf(t, &rep, "stop").Text)
			assert.NotZero(t, rep.ExitCode())
		}
		close(release)
		synctest.Wait()
	})
}

// TestIsolated: with isolation, what else must work must not, and the other way round.
func TestIsolated(t *testing.T) {
	isolated := func(f faults) func() Options {
		return func() Options {
			o := quickly(opener(f))
			o.Isolated = true
			return o
		}
	}
	judge(t, isolated(faults{isolate: true}), func(t assert.TestingT, rep *report) {
		got := outcomes(rep)
		assert.Equal(t, passed, rep.Verdict)
		assert.Equal(t, stepPassed, got["unicast"])
		assert.Equal(t, stepPassed, got["broadcast"])
		assert.Equal(t, stepPassed, got["full-frame"])
		assert.Equal(t, stepSkipped, got["throughput"])
	})
	judge(t, isolated(faults{}), func(t assert.TestingT, rep *report) {
		got := outcomes(rep)
		assert.Equal(t, stepFailed, got["unicast"])
		assert.Equal(t, stepFailed, got["broadcast"])
		assert.Contains(t, stepOf(t, rep, "unicast").Text, "guest b got frames though guests are isolated")
	})
}

// TestWithoutDHCP: then no server may offer anything, and the other steps go on with addresses of their own.
func TestWithoutDHCP(t *testing.T) {
	judge(t, of(faults{noDHCP: true}), func(t assert.TestingT, rep *report) {
		assert.Equal(t, passed, rep.Verdict)
		assert.Contains(t, stepOf(t, rep, "lease").Text, "no DHCP server, as the network tells")
		assert.Equal(t, stepPassed, outcomes(rep)["ping"])
		assert.Equal(t, stepSkipped, outcomes(rep)["same-lease"])
	})
	judge(t, of(faults{hideDHCP: true}), func(t assert.TestingT, rep *report) {
		assert.Contains(t, stepOf(t, rep, "lease").Text, "is offered by 192.168.105.1, though")
	})
}

// TestSmallRange: guests for which the range has no address are no fault of the network's.
func TestSmallRange(t *testing.T) {
	t.Parallel()
	for end, without := range map[string]int{"192.168.105.2": 2, "192.168.105.3": 1} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			judge(t, of(faults{dhcpEnd: end}), func(t assert.TestingT, rep *report) {
				assert.Equal(t, passed, rep.Verdict)
				assert.Equal(t, without, stepOf(t, rep, "lease").Values.value("without_address"))
				assert.Contains(t, stepOf(t, rep, "lease").Text, "server 192.168.105.1")
				assert.Equal(t, stepPassed, outcomes(rep)["same-lease"])
			})
		})
	}
	rep := Run(t.Context(), quickly(opener(faults{dhcpEnd: "192.168.105.3", noLease: true})))
	assert.Equal(t, stepFailed, outcomes(&rep)["lease"])
}

// TestWithoutRouter: where guests have no way out, leases need not name a gateway, and elsewhere they must.
func TestWithoutRouter(t *testing.T) {
	for _, noRouter := range []bool{false, true} {
		judge(t, func() Options {
			o := quickly(opener(faults{noNAT44: true}))
			o.NoRouter = noRouter
			return o
		}, func(t assert.TestingT, rep *report) {
			if noRouter {
				assert.Equal(t, passed, rep.Verdict)
				return
			}
			assert.Contains(t, stepOf(t, rep, "lease").Text, "the lease names no gateway, the network 192.168.105.1")
		})
	}
}

// TestBusySubnet: a network that is refused for a while after its end is waited for, and the time is told.
func TestBusySubnet(t *testing.T) {
	judge(t, func() Options {
		open, opened := opener(faults{}), 0
		return quickly(func(ctx context.Context) (network.Network, error) {
			switch opened++; opened {
			case 2:
				return nil, errors.New("subnet busy")
			case 3, 4:
				return nil, errors.New("subnet still busy")
			}
			return open(ctx)
		})
	}, func(t assert.TestingT, rep *report) {
		assert.Equal(t, passed, rep.Verdict)
		s := stepOf(t, rep, "reopen")
		assert.Equal(t, "subnet busy", s.Values.value("first_failure"))
		after, _ := s.Values.value("after_ms").(float64)
		assert.GreaterOrEqual(t, after, 300.0)
		assert.Equal(t, 4, s.Values.value("tries"))
	})
}

// TestSharing: ports that share an interface are told of, and are no failure beyond the guests.
func TestSharing(t *testing.T) {
	with := func(own int, asked bool) func() Options {
		return func() Options {
			o := quickly(opener(faults{ownPorts: own}))
			o.Sharing, o.SharingAsked = sharing, asked
			return o
		}
	}
	judge(t, with(5, false), func(t assert.TestingT, rep *report) {
		assert.Equal(t, passed, rep.Verdict)
		s := stepOf(t, rep, "interfaces")
		assert.Equal(t, 12, s.Values.value("started"))
		assert.Equal(t, 5, s.Values.value("own"))
		assert.Equal(t, 5, s.Values.value("first_failure_at"))
		assert.Equal(t, "limit", s.Values.value("first_failure"))
	})
	judge(t, with(1, true), func(t assert.TestingT, rep *report) {
		assert.Equal(t, passed, rep.Verdict)
	})
}

func TestRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dhcpd_leases")
	write := func(mac []byte) {
		var parts []string
		for _, b := range mac {
			parts = append(parts, fmt.Sprintf("%x", b)) // without leading zeros, as bootpd does
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		assert.NoError(t, err)
		_, _ = fmt.Fprintf(f, "{\n\tname=guest\n\tip_address=192.168.105.2\n\thw_address=1,%s\n\tlease=0x1\n}\n", strings.Join(parts, ":"))
		assert.NoError(t, f.Close())
	}
	in := func(path string, f faults) func() Options {
		return func() Options {
			o := quickly(opener(f))
			o.LeasesFile = path
			return o
		}
	}
	judge(t, in(path, faults{onRequest: write}), func(t assert.TestingT, rep *report) {
		assert.Equal(t, passed, rep.Verdict)
		assert.Equal(t, stepPassed, outcomes(rep)["recorded"])
	})
	judge(t, in(path, faults{}), func(t assert.TestingT, rep *report) { // of another run
		assert.Contains(t, stepOf(t, rep, "recorded").Text, "guest a, guest b, guest c not in")
	})
	judge(t, in(filepath.Join(t.TempDir(), "absent"), faults{}), func(t assert.TestingT, rep *report) {
		assert.Equal(t, stepFailed, outcomes(rep)["recorded"])
	})
}
