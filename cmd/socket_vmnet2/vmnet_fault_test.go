// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestOnVmnet is about what only vmnet does, through the socket of a daemon on the simulator. It runs in TestOnSimulator's
// process.
func TestOnVmnet(t *testing.T) {
	if os.Getenv(simulatorEnv) == "" {
		return
	}
	for name, test := range map[string]func(*testing.T){
		"start fails":        testStartFails,
		"framework too old":  testFrameworkTooOld,
		"killed":             testKilled,
		"list of interfaces": testListInterfaces,
		"bridged":            testBridged,
		"public addresses":   testPublicAddresses,
		"without effect":     testWithoutEffect,
		"self test":          testSelftest,
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

// testStartFails: a status of each call of a start is an error that begins as socket_vmnet's, and leaves nothing.
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
			t.Run(call, func(t *testing.T) {
				sock := socketPath(t)
				simulated(t, sock).Set(s, int64(api.NotAuthorized))
				p := launch(t, "socket_vmnet2", sock, "--vmnet-api="+way, "--pidfile="+sock+".pid")
				p.exits(t, 1)
				p.says(t, fmt.Sprintf("ERROR| %s: [%d] %s", call, api.NotAuthorized, api.NotAuthorized.Name()))
				assert.NoFileExists(t, sock)
				assert.NoFileExists(t, sock+".pid")
			})
		}
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
			refused.exits(t, 1)
			assert.Regexp(t, `ERROR\| .*--vmnet-disable-nat44.*macOS 26`, refused.stderr.String())
			assert.NoFileExists(t, sock+".lock")
		})
	}
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
				p.exits(t, 1)
				p.matches(t, `ERROR\| vmnet_network_create: \[10\d\d\] .*killed`)
				return
			}
			p.ready(t)
			p.talkers(t).check("after")
		})
	}
}

func testListInterfaces(t *testing.T) {
	p := launch(t, "socket_vmnet2", socketPath(t), "--list-interfaces")
	p.exits(t, 0)
	assert.Equal(t, "en0\nen1\n", p.stdout.String())

	sock := socketPath(t)
	simulated(t, sock).Set(vmnetsim.SharedListResult, int64(api.Failure))
	none := launch(t, "socket_vmnet2", sock, "--list-interfaces")
	none.exits(t, 1)
	assert.Equal(t, "ERROR| macOS names no interface of this host that can be bridged to\n", none.stderr.String())
}

// testBridged: each client is on the host's network by an interface of its own, and an unknown interface is refused.
func testBridged(t *testing.T) {
	p := start(t, "--vmnet-mode=bridged", "--vmnet-interface=en1")
	p.talkers(t).check("bridged")
	p.says(t, "INFO | Initializing vmnet.framework (mode 1002)\nINFO | Using network interface \"en1\"\n")

	wrong := launch(t, "socket_vmnet2", socketPath(t), "--vmnet-mode=bridged", "--vmnet-interface=en7")
	wrong.exits(t, 1)
	assert.Regexp(t, `ERROR\| .*en7.*en0.*en1`, wrong.stderr.String(), "it names those there are")
}

// testWithoutEffect: options that serve no client are named.
func testWithoutEffect(t *testing.T) {
	p := start(t, "--dns-record=a.b=192.168.105.9", "--host-loopback=on", "--vmnet-forward=tcp:18080=10.9.9.9:80", "--vmnet-forward=udp:18080=192.168.64.9:80")
	p.says(t, "WARN | --dns-record has no effect")
	p.says(t, "WARN | --host-loopback has no effect")
	p.matches(t, `WARN \| --vmnet-forward=tcp:18080=10\.9\.9\.9:80 leads to no guest: macOS chose the network 192\.168\.\d+\.0/24; ask`)
	assert.NotContains(t, p.stderr.String(), "udp:18080")

	p = start(t, "--vmnet-gateway=192.168.105.1", "--vmnet-forward=tcp:18080=192.168.105.9:80")
	assert.NotContains(t, p.stderr.String(), "WARN")

	p = launch(t, "socket_vmnet2", socketPath(t), "--vmnet-gateway=192.168.105.1", "--vmnet-forward=tcp:127.0.0.1:18080=192.168.105.9:80")
	p.exits(t, 1)
	p.says(t, "ERROR| --vmnet-forward=tcp:127.0.0.1:18080=192.168.105.9:80: vmnet leads ports of all addresses of this host to guests")
}

// testPublicAddresses: vmnet takes private addresses only, and it alone would not say which value it does not take.
func testPublicAddresses(t *testing.T) {
	for _, args := range [][]string{
		{"--vmnet-gateway=8.8.8.1"},
		{"--vmnet-gateway=192.168.1.1", "--vmnet-mask=255.0.0.0", "--vmnet-dhcp-end=192.200.0.1"},
	} {
		sock := socketPath(t)
		p := launch(t, "socket_vmnet2", sock, append(args, "--vmnet-gateway-any", "--pidfile="+sock+".pid")...)
		p.exits(t, 1)
		p.says(t, "ERROR| vmnet's addresses must be private ones, ")
		assert.NoFileExists(t, sock+".lock")
	}
}

// TestDescribesVmnet: which way the network was made and why, and which clients have an interface of their own. It runs in
// TestOnSimulator's process.
func TestDescribesVmnet(t *testing.T) {
	if os.Getenv(simulatorEnv) == "" {
		return
	}
	sock := socketPath(t)
	c := simulated(t, sock)
	c.Set(vmnetsim.MaxInterfaces, 3) // one is the anchor
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	var clients []*client
	for i := range byte(4) {
		clients = append(clients, p.dial(t, 10+i))
		clients[i].send(99, "here I am")
		p.describes(t, func(s status.Status) bool {
			return len(s.Clients) == int(i)+1 && s.Clients[i].State == status.StateRunning && s.Clients[i].MACs == 1
		})
	}
	s, _ := p.status(t)
	assert.Equal(t, "vmnet", s.Network.Backend)
	assert.Equal(t, status.NetworkRunning, s.Network.State)
	assert.True(t, s.Network.Subnet.IsValid())
	assert.Nil(t, s.Network.Usernet)
	v := s.Network.Vmnet
	if assert.NotNil(t, v) {
		assert.Contains(t, []string{"network", "interface"}, v.API)
		assert.NotEmpty(t, v.Why)
		assert.Equal(t, 2, v.Own)
		assert.Equal(t, 2, v.Shared)
		assert.Positive(t, v.Starts)
		assert.Positive(t, v.StartFailures)
		assert.NotEmpty(t, v.LastFailure)
	}
	for i, kind := range []string{status.InterfaceOwn, status.InterfaceOwn, status.InterfaceShared, status.InterfaceShared} {
		one := s.Clients[i]
		assert.Equal(t, kind, one.Interface.Kind)
		assert.NotEmpty(t, one.Interface.ID)
		assert.NotEmpty(t, one.Interface.MAC)
		assert.Equal(t, 1, one.MACs)
	}
	_ = clients[0].Close() // its interface becomes the third one's
	s = p.describes(t, func(s status.Status) bool { return len(s.Clients) == 3 && s.Network.Vmnet.Own == 2 })
	assert.Equal(t, 1, s.Network.Vmnet.Shared)
	p.describes(t, func(s status.Status) bool { return s.Clients[1].Interface.Kind == status.InterfaceOwn })
}

// testSelftest runs the self test on the simulated vmnet, where no DHCP server of macOS's records leases.
func testSelftest(t *testing.T) {
	args := append([]string{"--json", "--quick", "--vmnet-gateway=192.168.105.1"}, simulatorArgs(os.Getenv(simulatorEnv), t.TempDir())...)
	_, stdout, stderr := selftestRun(t, args...)
	r := parseReport(t, stdout)
	for _, s := range r.Steps {
		assert.True(t, s.Outcome == "pass" || s.Name == "recorded", "%s: %s\n%s", s.Name, s.Text, stderr)
	}
	assert.Equal(t, "vmnet", r.Environment["backend"])
	assert.Equal(t, "interface", r.Network["api"])
	assert.NotEmpty(t, r.Network["api_why"])
	assert.Equal(t, "1500", r.Network["vmnet_mtu"])
}
