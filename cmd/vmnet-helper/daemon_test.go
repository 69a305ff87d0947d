// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A daemon is socket_vmnet2 itself.
type daemon struct {
	*exec.Cmd
	socket string
	stderr *vnettest.Log
	ended  chan struct{}
}

// startDaemon starts it with the embedded network on a socket of its own, or on the one that is given.
func startDaemon(t *testing.T, socket string, args ...string) *daemon {
	t.Helper()
	if socket == "" {
		socket = filepath.Join(vnettest.ShortDir(t), "s")
	}
	args = append([]string{
		"--backend=usernet", "--vmnet-gateway=192.168.105.1", "--state-dir=" + socket + ".state",
		"--allow-uid=" + strconv.Itoa(os.Getuid()), // a daemon of root's takes no machine for root's otherwise
	}, args...)
	d := &daemon{Cmd: exec.Command(filepath.Join(built, "bin/socket_vmnet2"), append(args, socket)...), socket: socket, stderr: &vnettest.Log{}}
	d.Stderr = d.stderr
	d.ended = make(chan struct{})
	require.NoError(t, d.Start())
	go func() {
		defer close(d.ended)
		_ = d.Wait()
	}()
	t.Cleanup(func() {
		d.stop(t)
		if t.Failed() {
			t.Logf("daemon:\n%s", d.stderr)
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, testPatience, 5*time.Millisecond, "not ready: %s", d.stderr)
	return d
}

// stop ends the daemon in order.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	_ = d.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(testPatience):
		_ = d.Process.Kill()
		<-d.ended
		assert.Fail(t, "the daemon did not stop")
	}
}

// vfkit is a machine that connects to a helper's socket as vfkit does, or, without the hello, as libkrun.
func vfkit(t *testing.T, path, mac string, hello bool) *fakeguest.Guest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	l, err := fakeguest.PathLink(ctx, fakeguest.PathOptions{
		Server: path, Local: filepath.Join(filepath.Dir(path), "vfkit-"+mac[12:]), Connected: true, Hello: hello,
	})
	require.NoError(t, err)
	return guest(t, l, mac)
}

// passedTo is a machine that was given a descriptor, which it takes over.
func passedTo(t *testing.T, f *os.File, mac string) *fakeguest.Guest {
	t.Helper()
	conn, err := net.FileConn(f)
	require.NoError(t, err)
	f.Close()
	uc, ok := conn.(*net.UnixConn)
	require.True(t, ok)
	l, err := fakeguest.DatagramLink(uc)
	require.NoError(t, err)
	return guest(t, l, mac)
}

// guest boots a machine on a link.
func guest(t *testing.T, l fakeguest.Link, mac string) *fakeguest.Guest {
	t.Helper()
	addr, err := net.ParseMAC(mac)
	require.NoError(t, err)
	g, err := fakeguest.New(l, fakeguest.Options{MAC: addr, Timeout: testPatience})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// lease gets an address and reaches the gateway.
func lease(t *testing.T, g *fakeguest.Guest) netip.Prefix {
	t.Helper()
	l, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, netip.MustParsePrefix("192.168.105.0/24").Contains(g.Addr().Addr()), "%+v", l)
	_, err = g.Ping(netip.MustParseAddr("192.168.105.1"), 1)
	require.NoError(t, err)
	return g.Addr()
}

// TestMinikube starts two machines as minikube's drivers do: the helper with these arguments, the line on stdout for the
// machine's MAC address, then the VMM on the socket. They get addresses and reach each other.
func TestMinikube(t *testing.T) {
	d := startDaemon(t, "")
	config := filepath.Join(vnettest.ShortDir(t), configName)
	require.NoError(t, os.MkdirAll(filepath.Dir(config), 0o700))
	require.NoError(t, os.WriteFile(config, []byte("shared = "+d.socket+"\n"), 0o600))
	env := []string{"XDG_CONFIG_HOME=" + filepath.Dir(filepath.Dir(config))}
	start := func(id string, hello bool) (*helper, *fakeguest.Guest, info) {
		path := filepath.Join(vnettest.ShortDir(t), "vmnet-helper.sock")
		h := runHelper(t, env, nil, "--socket", path, "--interface-id", id)
		i := h.info()
		assert.Equal(t, id, i.InterfaceID)
		assert.Equal(t, info{
			SubnetMask: "255.255.255.0", MTU: 1500, StartAddress: "192.168.105.1", EndAddress: "192.168.105.253", MaxPacketSize: 1514,
			InterfaceID: id, MACAddress: i.MACAddress, ReadMaxPackets: i.ReadMaxPackets, WriteMaxPackets: i.WriteMaxPackets,
		}, i)
		return h, vfkit(t, path, i.MACAddress, hello), i
	}
	first, vm1, info1 := start(someUUID, true)
	second, vm2, info2 := start("0E21C1D4-43D9-4363-B767-A6488D25C93E", false)
	assert.NotEqual(t, info1.MACAddress, info2.MACAddress)
	addr := lease(t, vm1)
	lease(t, vm2)
	_, err := vm2.Ping(addr.Addr(), 1)
	require.NoError(t, err)

	taken := runHelper(t, env, nil, "--socket", filepath.Join(vnettest.ShortDir(t), "s"), "--interface-id", someUUID)
	assert.Equal(t, 1, taken.exit())
	assert.Contains(t, taken.stderr.String(), "id-in-use")

	// minikube stop, then start: the same machine again.
	vm1.Close()
	assert.Equal(t, 0, first.stop())
	again := restart(t, env)
	assert.Equal(t, info1.MACAddress, again.info().MACAddress)

	// The daemon stops under them.
	d.stop(t)
	for _, h := range []*helper{second, again} {
		assert.Equal(t, 1, h.exit())
		assert.Contains(t, h.stderr.String(), "has stopped")
	}
}

// restart starts a helper with the identity of one that has just ended. The daemon may take a moment to notice that.
func restart(t *testing.T, env []string) *helper {
	t.Helper()
	for end := time.Now().Add(testPatience); ; time.Sleep(20 * time.Millisecond) {
		h := runHelper(t, env, nil, "--socket", filepath.Join(vnettest.ShortDir(t), "s"), "--interface-id", someUUID)
		if _, err := h.out.Peek(1); err == nil {
			return h
		}
		require.Equal(t, 1, h.exit())
		require.Contains(t, h.stderr.String(), "id-in-use")
		require.True(t, time.Now().Before(end), "the identity is not given back")
	}
}

// TestDaemonRestarted has machines go on with the next daemon, one that connected by a path and one with a descriptor, whether
// the first one stopped in order or not.
func TestDaemonRestarted(t *testing.T) {
	for name, killed := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, "")
			path := filepath.Join(vnettest.ShortDir(t), "s")
			h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
			vm1 := vfkit(t, path, h.info().MACAddress, true)
			ours, theirs := pair(t, proto.Datagram)
			h2 := runHelper(t, nil, []*os.File{theirs}, "--daemon", d.socket, "--fd", "3")
			theirs.Close()
			vm2 := passedTo(t, ours, h2.info().MACAddress)
			lease(t, vm1)
			lease(t, vm2)
			if killed {
				require.NoError(t, d.Process.Kill())
				<-d.ended
			} else {
				d.stop(t)
			}
			startDaemon(t, d.socket)
			for _, h := range []*helper{h, h2} {
				require.Eventually(t, func() bool { return strings.Contains(h.stderr.String(), "running again") }, testPatience, time.Millisecond,
					"%s", h.stderr)
			}
			addr := lease(t, vm1)
			lease(t, vm2)
			_, err := vm2.Ping(addr.Addr(), 1)
			require.NoError(t, err)
			assert.Equal(t, 0, h.stop())
			assert.Equal(t, 0, h2.stop())
		})
	}
}
