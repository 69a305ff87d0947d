// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// testBootpdBlocked: a firewall in front of the DHCP server is warned of once, with the commands that open it, until it answers.
func testBootpdBlocked(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	p := launch(t, "socket_vmnet2", sock, "--vmnet-gateway=192.168.105.1")
	p.ready(t)
	c.Set(vmnetsim.Host, 2)
	g := guest(t, p, 1)
	discover(t, g)
	const line = "a guest gets no address: no server answers its DHCP requests"
	p.says(t, line)
	one := problems(t, p)[status.NoDHCPAnswer]
	assert.Equal(t, status.Error, one.Severity)
	assert.Contains(t, one.Text, "macOS's DHCP server (bootpd) does not answer, most likely because the firewall is in front of it")
	const command = "sudo /usr/libexec/ApplicationFirewall/socketfilterfw --unblockapp /usr/libexec/bootpd"
	assert.Contains(t, one.Fix, "    "+command)
	p.says(t, command)
	c.Set(vmnetsim.Host, 1)
	l, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, netip.MustParsePrefix("192.168.105.0/24").Contains(l.Addr.Addr()))
	require.Eventually(t, func() bool { return problems(t, p)[status.NoDHCPAnswer].Code == "" }, patience, patience/100)
	p.says(t, "the guest waits for no address any more")
	assert.Equal(t, 1, strings.Count(p.stderr.String(), line))
}

// testSharingBusy: clients for whom macOS starts no interface share one, and status tells why.
func testSharingBusy(t *testing.T) {
	sock := socketPath(t)
	c := simulated(t, sock)
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	c.Set(vmnetsim.StartStatus, int64(api.SharingServiceBusy))
	c.Set(vmnetsim.StartOnStatus, int64(api.SharingServiceBusy))
	g := guest(t, p, 1)
	_, err := g.Configure()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		found := problems(t, p)
		return strings.Contains(found[status.SharingBusy].Text, "VMNET_SHARING_SERVICE_BUSY") && len(found[status.SharedInterface].Clients) == 1
	}, patience, patience/100, "%v", problems(t, p))
}
