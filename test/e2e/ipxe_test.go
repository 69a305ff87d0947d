// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// ipxeScript does what socket_vmnet's own test does, then fetches a page by the names %[1]s and %[2]s. Only DHCP, because
// Debian 12's iPXE would wait 15 s for an IPv6 router as well.
const ipxeScript = `ifconf -c dhcp net0 || goto failed
show net0/mac
show net0.dhcp/ip
show net0.dhcp/gateway
show net0.dhcp/netmask
show net0.dhcp/dns
imgfetch http://%[1]s/${net0/mac}/${net0.dhcp/ip} && echo fetched-by-alias
imgfetch http://%[2]s/record && echo fetched-by-record
goto end
:failed
echo dhcp-failed
:end
sleep 1
reboot
`

var ipxeAddress = regexp.MustCompile(`net0\.dhcp/ip:ipv4 = (192\.168\.105\.\d+)`)

// TestIPXE runs an iPXE image on fd 3, as socket_vmnet's own tests do: another DHCP client, another TCP.
func TestIPXE(t *testing.T) {
	l := newLab(t)
	p := page(t, "127.0.0.1:0")
	socket := l.Path("socket_vmnet")
	start := func(args ...string) *lab.Daemon {
		return startDaemon(t, l, daemonNew, socket, append(args, "--dns-record=page.test="+alias)...)
	}
	machine := func(name, mac string) lab.IPXEOptions {
		return lab.IPXEOptions{
			Name: name, MAC: mac, Client: client, Socket: socket,
			Script: fmt.Sprintf(ipxeScript, fmt.Sprintf("host.internal:%d", p.Port()), fmt.Sprintf("page.test:%d", p.Port())),
		}
	}
	lease := func(t *testing.T, o lab.IPXEOptions) string {
		out, err := l.RunIPXE(within(t, 3*time.Minute), o)
		require.NoError(t, err)
		assert.Contains(t, out, "net0/mac:hex = "+o.MAC)
		assert.Contains(t, out, "net0.dhcp/gateway:ipv4 = "+gateway+"\n")
		assert.Contains(t, out, "net0.dhcp/netmask:ipv4 = 255.255.255.0\n")
		assert.Contains(t, out, "net0.dhcp/dns:ipv4 = "+gateway+"\n")
		assert.Contains(t, out, "fetched-by-alias")
		assert.Contains(t, out, "fetched-by-record")
		m := ipxeAddress.FindStringSubmatch(out)
		require.NotNil(t, m, out)
		return m[1]
	}
	d := start()
	var address string
	t.Run("lease and page", func(t *testing.T) { address = lease(t, machine("first", "52:54:00:12:34:56")) })
	stop(t, d, syscall.SIGTERM)
	t.Run("same address after a restart", func(t *testing.T) {
		d := start()
		assert.Equal(t, address, lease(t, machine("second", "52:54:00:12:34:56")))
		stop(t, d, syscall.SIGHUP)
	})
}

// stop stops a daemon, which must end with code 0 in less than 2 s.
func stop(t *testing.T, d *lab.Daemon, s syscall.Signal) time.Duration {
	t.Helper()
	took, err := d.Stop(within(t, patience), s)
	require.NoError(t, err)
	assert.Zero(t, d.ExitCode(), "exit code")
	assert.Less(t, took, 2*time.Second, "time to stop")
	return took
}
