// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestOnVmnet is about what only vmnet does, through the socket of a daemon on the simulator. It runs in TestOnSimulator's
// process.
func TestOnVmnet(t *testing.T) {
	if os.Getenv(simulatorEnv) == "" {
		return
	}
	for name, test := range map[string]func(*testing.T){
		"start fails":                              testStartFails,
		"busy subnet":                              testBusySubnet,
		"other subnet":                             testOtherSubnet,
		"framework too old":                        testFrameworkTooOld,
		"more clients than interfaces":             testMoreClientsThanInterfaces,
		"interface of a client does not start":     testClientStartFails,
		"all reconnect at once":                    testReconnectAtOnce,
		"interface dies":                           testInterfaceDies,
		"client leaves while its interface starts": testClientLeavesEarly,
		"stop while starting":                      testStopWhileStarting,
		"framework hangs at the stop":              testFrameworkHangs,
		"killed":                                   testKilled,
		"identity survives a restart":              testIdentity,
		"list of interfaces":                       testListInterfaces,
		"bridged":                                  testBridged,
		"without effect":                           testWithoutEffect,
		"public addresses":                         testPublicAddresses,
		"bootpd blocked":                           testBootpdBlocked,
		"sharing service busy":                     testSharingBusy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// simulated opens the switches of the simulator for a daemon on sock, which need not run yet.
func simulated(t *testing.T, sock string) *vmnetsim.Control {
	t.Helper()
	dir := filepath.Dir(sock) + "/vmnetsim"
	require.NoError(t, os.MkdirAll(dir, 0o700))
	c, err := vmnetsim.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// socketPath is a path for a daemon's socket.
func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

// testStartFails: each status at each call of a start is an error that begins as socket_vmnet's, and leaves nothing.
func testStartFails(t *testing.T) {
	for way, switches := range map[string]map[string]vmnetsim.Switch{
		"network": {
			"vmnet_network_configuration_create": vmnetsim.ConfigCreateResult,
			"vmnet_network_create":               vmnetsim.NetworkCreateResult,
			"vmnet_interface_start_with_network": vmnetsim.StartOnStatus,
		},
		"interface": {"vmnet_start_interface": vmnetsim.StartStatus},
	} {
		for call, s := range switches {
			for status := api.Failure; status <= api.NotAuthorized; status++ {
				if status == api.SharingServiceBusy || status == api.Failure && call == "vmnet_network_create" {
					continue // waited for: testBusySubnet
				}
				t.Run(fmt.Sprintf("%s %d", call, status), func(t *testing.T) {
					sock := socketPath(t)
					simulated(t, sock).Set(s, int64(status))
					p := launch(t, "socket_vmnet2", sock, "--vmnet-api="+way, "--pidfile="+sock+".pid")
					<-p.ended
					assert.Equal(t, 1, p.ProcessState.ExitCode())
					p.says(t, fmt.Sprintf("ERROR| %s: [%d] %s", call, status, status.Name()))
					assert.NoFileExists(t, sock)
					assert.NoFileExists(t, sock+".pid")
				})
			}
		}
	}
}

// testBusySubnet: a subnet that is busy for a while is waited for, for one that stays so the daemon gives up.
func testBusySubnet(t *testing.T) {
	for name, times := range map[string]int64{"for a while": 2, "for ever": vmnetsim.Forever} {
		t.Run(name, func(t *testing.T) {
			sock := socketPath(t)
			simulated(t, sock).Set(vmnetsim.StartStatus, int64(api.SharingServiceBusy), times)
			since := time.Now()
			p := launch(t, "socket_vmnet2", sock, "--vmnet-api=interface", "--vmnet-gateway=192.168.105.1")
			if times == 2 {
				p.ready(t)
				p.talkers(t).check("serving")
				return
			}
			<-p.ended
			assert.Equal(t, 1, p.ProcessState.ExitCode())
			p.says(t, "[1009] VMNET_SHARING_SERVICE_BUSY")
			assert.Greater(t, time.Since(since), 4*time.Second)
		})
	}
}

// testOtherSubnet: guests have addresses of the subnet that was asked for, so another one is no success.
func testOtherSubnet(t *testing.T) {
	sock := socketPath(t)
	simulated(t, sock).Set(vmnetsim.OtherSubnet, vmnetsim.SubnetValue(netip.MustParseAddr("192.168.77.0")))
	p := launch(t, "socket_vmnet2", sock, "--vmnet-gateway=192.168.105.1")
	<-p.ended
	assert.Equal(t, 1, p.ProcessState.ExitCode())
	for _, subnet := range []string{"192.168.77.0/24", "192.168.105.0/24"} {
		p.says(t, subnet)
	}
}

// testFrameworkTooOld: what an older framework has serves, what it lacks is an error before anything is touched.
func testFrameworkTooOld(t *testing.T) {
	for name, flavour := range map[string]vmnetsim.Flavour{"macOS 15": vmnetsim.NoMacOS26, "macOS 14": vmnetsim.NoMacOS15} {
		t.Run(name, func(t *testing.T) {
			lib := "--vmnetsim-lib=" + vmnetsim.Library(t, flavour)
			p := start(t, lib)
			p.talkers(t).check("serving")
			p.says(t, "api=interface")

			sock := socketPath(t)
			refused := launch(t, "socket_vmnet2", sock, lib, "--vmnet-disable-nat44", "--pidfile="+sock+".pid")
			<-refused.ended
			assert.Equal(t, 1, refused.ProcessState.ExitCode())
			assert.Regexp(t, `ERROR\| .*--vmnet-disable-nat44.*macOS 26`, refused.stderr.String())
			assert.NoFileExists(t, sock+".lock")
		})
	}
}

// testMoreClientsThanInterfaces: clients beyond what macOS can start share the anchor, and nobody notices.
func testMoreClientsThanInterfaces(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	c.Set(vmnetsim.MaxInterfaces, 5)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	var clients []*client
	for i := range byte(10) {
		clients = append(clients, p.dial(t, 10+i))
	}
	mesh(t, clients)
	assert.LessOrEqual(t, c.Gauges().Interfaces, int64(5))
	// When some with an interface of their own leave, others move to one, in the middle of what they do.
	for _, one := range clients[:4] {
		require.NoError(t, one.Close())
	}
	require.Eventually(t, func() bool { return c.Gauges().Interfaces == 5 }, patience, 10*time.Millisecond,
		"at once, not when they try again after 30 s")
	mesh(t, clients[4:])
}

// testClientStartFails: whatever the framework does in place of starting a client's interface, the client gets its frames.
func testClientStartFails(t *testing.T) {
	for name, breakIt := range map[string]func(*vmnetsim.Control){
		"status":                func(c *vmnetsim.Control) { c.Set(vmnetsim.StartStatus, int64(api.MemFailure), 2) },
		"NULL, and the handler": func(c *vmnetsim.Control) { c.Set(vmnetsim.StartNull, 1, 2) },
		"NULL, and no handler":  func(c *vmnetsim.Control) { c.Set(vmnetsim.StartNull, 2, 2) },
		"no handler":            func(c *vmnetsim.Control) { c.Set(vmnetsim.StartSilent, 1, 1) },
		"no room, another status": func(c *vmnetsim.Control) {
			c.Set(vmnetsim.MaxInterfaces, 2)
			c.Set(vmnetsim.MaxInterfacesError, int64(api.MemFailure))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for an answer that never comes
			sock := socketPath(t)
			c := simulated(t, sock)
			p := launch(t, "socket_vmnet2", sock)
			p.ready(t)
			breakIt(c)
			a, b := p.dial(t, 0xa1), p.dial(t, 0xb1)
			a.reaches(b)
			b.reaches(a)
		})
	}
}

// testReconnectAtOnce: thirty clients come, leave without a word, and come again.
func testReconnectAtOnce(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	c.Set(vmnetsim.StartDelay, 50)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	tk := p.talkers(t)
	for range 3 {
		conns := make([]net.Conn, 30)
		var all sync.WaitGroup
		for i := range conns {
			all.Go(func() {
				conn, err := net.Dial("unix", sock)
				if err == nil {
					_, err = conn.Write(wire(0, byte(100+i), "hello"))
				}
				assert.NoError(t, err)
				conns[i] = conn
			})
		}
		all.Wait()
		tk.check("in between")
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	require.Eventually(t, func() bool { return c.Gauges().Interfaces == 3 }, patience, 10*time.Millisecond,
		"those of two clients and the anchor")
	tk.check("and afterwards")
}

// testInterfaceDies: another interface is started behind the client, who stays connected.
func testInterfaceDies(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	tk := p.talkers(t)
	c.Set(vmnetsim.DieOrdinal, -1)
	for end := time.Now().Add(patience); !strings.Contains(p.stderr.String(), "a client's interface has died"); { // what is sent finds out
		require.True(t, time.Now().Before(end), "nobody notices")
		tk.a.send(tk.b.mac, "lost")
		time.Sleep(time.Millisecond)
	}
	c.Set(vmnetsim.DieOrdinal, 0)
	tk.a.reaches(tk.b)
	tk.b.reaches(tk.a)
	tk.check("restarted")
}

// testClientLeavesEarly: the interface of a client that left while it was starting is stopped.
func testClientLeavesEarly(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	tk := p.talkers(t)
	c.Set(vmnetsim.StartDelay, 1000)
	for i := range byte(8) {
		leaver := p.dial(t, 50+i)
		_, _ = leaver.Write(wire(0, 50+i, "hello"))
		time.Sleep(30 * time.Millisecond)
		_ = leaver.Close()
	}
	tk.check("meanwhile")
	c.Set(vmnetsim.StartDelay, 0)
	require.Eventually(t, func() bool { return c.Gauges().Interfaces == 3 }, patience, 10*time.Millisecond,
		"those of two clients and the anchor")
	tk.check("afterwards")
}

// testStopWhileStarting: the daemon ends in time with code 0 while its network or a client's interface is starting.
func testStopWhileStarting(t *testing.T) {
	t.Run("network", func(t *testing.T) {
		sock := socketPath(t)
		c := simulated(t, sock)
		c.Set(vmnetsim.StartDelay, 60_000)
		p := launch(t, "socket_vmnet2", sock)
		require.Eventually(t, func() bool { return c.Gauges().Queues > 0 }, patience, time.Millisecond)
		code, took := p.signal(t, syscall.SIGTERM)
		assert.Zero(t, code)
		assert.Less(t, took, stopTime)
		assert.NoFileExists(t, sock)
	})
	t.Run("client", func(t *testing.T) {
		sock := socketPath(t)
		c := simulated(t, sock)
		p := launch(t, "socket_vmnet2", sock)
		p.ready(t)
		c.Set(vmnetsim.StartDelay, 60_000)
		one, err := net.Dial("unix", sock)
		require.NoError(t, err)
		defer one.Close()
		_, err = one.Write(wire(0, 9, "hello"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return c.Gauges().Queues > 1 }, patience, time.Millisecond)
		code, took := p.signal(t, syscall.SIGTERM)
		assert.Zero(t, code)
		assert.Less(t, took, stopTime)
	})
}

// testFrameworkHangs: a framework that never answers a stop does not keep the daemon.
func testFrameworkHangs(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	p.talkers(t)
	c.Set(vmnetsim.StopSilent, 1)
	code, took := p.signal(t, syscall.SIGTERM)
	assert.Zero(t, code)
	assert.Less(t, took, stopTime)
	assert.NoFileExists(t, sock)
}

// testKilled: a daemon that was killed comes back with its subnet, as Lima and others start it. By way of a network object
// it would not, for macOS keeps the subnet of a dead owner's: then the error tells so, and nothing is left.
func testKilled(t *testing.T) {
	lima := []string{"--vmnet-gateway=192.168.105.1", "--vmnet-dhcp-end=192.168.105.254", "--vmnet-mask=255.255.255.0"}
	for _, way := range []string{"auto", "interface", "network"} {
		t.Run(way, func(t *testing.T) {
			sock := socketPath(t)
			args := append(slices.Clone(lima), "--vmnet-api="+way)
			p := launch(t, "socket_vmnet2", sock, args...)
			p.ready(t)
			p.talkers(t).check("before")
			require.NoError(t, p.Process.Kill())
			<-p.ended
			p = launch(t, "socket_vmnet2", sock, args...)
			if way == "network" {
				<-p.ended
				assert.Equal(t, 1, p.ProcessState.ExitCode())
				p.matches(t, `ERROR\| vmnet_network_create: \[10\d\d\] .*killed`)
				return
			}
			p.ready(t)
			p.talkers(t).check("after")
		})
	}
}

// testIdentity: after a restart the network is the same one: the subnet that macOS chose where it is ours to ask for again,
// and the id of the anchor where interfaces have one.
func testIdentity(t *testing.T) {
	for name, test := range map[string]struct{ args, keys []string }{
		"network": {[]string{"--vmnet-api=network"}, nil}, // whose interfaces tell nothing that lasts
		"interface": {
			[]string{"--vmnet-api=interface", "--vmnet-gateway=192.168.105.1"},
			[]string{"vmnet_interface_id", "vmnet_mac_address", "vmnet_start_address"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, sock := stateRoot(t), socketPath(t)
			simulator := simulated(t, sock)
			simulator.Set(vmnetsim.BusyAfter, 500) // a subnet is not free at once when its owner has gone
			var first string
			for round := range 3 {
				p := launch(t, "socket_vmnet2", sock, append(test.args, "--state-dir="+dir)...)
				p.ready(t)
				require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "vmnet network started") },
					patience, time.Millisecond, "its log comes through a pipe, later than it is ready")
				said := parameters(p.stderr.String(), test.keys)
				for _, o := range simulator.Owners() {
					if o.Freed.IsZero() {
						said += o.Subnet.String() + "\n"
					}
				}
				if round == 0 {
					first = said
					assert.Equal(t, len(test.keys)+1, strings.Count(said, "\n"), said)
				}
				assert.Equal(t, first, said)
				if round == 1 && name == "interface" { // for a network object see testKilled
					require.NoError(t, p.Process.Kill())
					<-p.ended
					continue
				}
				code, _ := p.signal(t, syscall.SIGTERM)
				require.Zero(t, code)
			}
		})
	}
}

// parameters are the lines of a log about the anchor's start with the given keys.
func parameters(log string, keys []string) string {
	var kept []string
	for line := range strings.Lines(log) {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(line, "INFO | * "+k+": ") }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func testListInterfaces(t *testing.T) {
	p := launch(t, "socket_vmnet2", socketPath(t), "--list-interfaces")
	<-p.ended
	assert.Zero(t, p.ProcessState.ExitCode())
	assert.Equal(t, "en0\nen1\n", p.stdout.String())

	sock := socketPath(t)
	simulated(t, sock).Set(vmnetsim.SharedListResult, int64(api.Failure))
	none := launch(t, "socket_vmnet2", sock, "--list-interfaces")
	<-none.ended
	assert.Equal(t, 1, none.ProcessState.ExitCode())
	assert.Equal(t, "ERROR| macOS names no interface of this host that can be bridged to\n", none.stderr.String())
}

// testBridged: each client is on the host's network by an interface of its own, and an unknown interface is refused.
func testBridged(t *testing.T) {
	p := start(t, "--vmnet-mode=bridged", "--vmnet-interface=en1")
	p.talkers(t).check("bridged")
	p.says(t, "INFO | Initializing vmnet.framework (mode 1002)\nINFO | Using network interface \"en1\"\n")

	wrong := launch(t, "socket_vmnet2", socketPath(t), "--vmnet-mode=bridged", "--vmnet-interface=en7")
	<-wrong.ended
	assert.Equal(t, 1, wrong.ProcessState.ExitCode())
	assert.Regexp(t, `ERROR\| .*en7.*en0.*en1`, wrong.stderr.String(), "it names those there are")
}

// testWithoutEffect: what serves nobody is said.
func testWithoutEffect(t *testing.T) {
	p := start(t, "--dns-record=a.b=192.168.105.9", "--host-loopback=on", "--vmnet-forward=tcp:18080=10.9.9.9:80", "--vmnet-forward=udp:18080=192.168.64.9:80")
	p.says(t, "WARN | --dns-record has no effect")
	p.says(t, "WARN | --host-loopback has no effect")
	p.matches(t, `WARN \| --vmnet-forward=tcp:18080=10\.9\.9\.9:80 leads to no guest: macOS chose the network 192\.168\.\d+\.0/24; ask`)
	assert.NotContains(t, p.stderr.String(), "udp:18080")

	p = start(t, "--vmnet-gateway=192.168.105.1", "--vmnet-forward=tcp:18080=192.168.105.9:80")
	assert.NotContains(t, p.stderr.String(), "WARN")
}

// testPublicAddresses: vmnet takes private addresses only, and it alone would not say which value it does not take.
func testPublicAddresses(t *testing.T) {
	for _, args := range [][]string{
		{"--vmnet-gateway=8.8.8.1"},
		{"--vmnet-gateway=192.168.1.1", "--vmnet-mask=255.0.0.0", "--vmnet-dhcp-end=192.200.0.1"},
	} {
		sock := socketPath(t)
		p := launch(t, "socket_vmnet2", sock, append(args, "--vmnet-gateway-any", "--pidfile="+sock+".pid")...)
		<-p.ended
		assert.Equal(t, 1, p.ProcessState.ExitCode())
		p.says(t, "ERROR| vmnet's addresses must be private ones, ")
		assert.NoFileExists(t, sock+".lock")
	}
}
