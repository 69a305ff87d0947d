// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// TestOnVmnetTry tries the simulated vmnet: the subnet that was chosen is what it is asked for. It runs in TestOnSimulator's
// process.
func TestOnVmnetTry(t *testing.T) {
	lib := os.Getenv(simulatorEnv)
	if lib == "" {
		return
	}
	r := newTryRig(t)
	dir := shortDir(t)
	p := r.try(append([]string{"--json", "--dir=" + dir + "/try"}, simulatorArgs(lib, dir+"/vmnetsim")...)...)
	v := r.ready(p)
	assert.Equal(t, "vmnet", v.Backend)
	subnet := netip.MustParsePrefix(v.Subnet)
	assert.Equal(t, subnet.Addr().Next().String(), v.Gateway)
	assert.NotEqual(t, "192.168.105.0/24", v.Subnet)
	g, err := fakeguest.Dial(v.Socket, fakeguest.Options{Timeout: patience})
	require.NoError(t, err)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, subnet.Contains(lease.Addr.Addr()), lease.Addr.String())
	_, err = g.Ping(lease.Gateway, 1)
	require.NoError(t, err)
	g.Close()
	r.end(p, syscall.SIGTERM)
	assert.NoDirExists(t, dir+"/try")
}
