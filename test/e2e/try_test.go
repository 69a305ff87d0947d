// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaseScript asks for an address and nothing else.
const leaseScript = `ifconf -c dhcp net0 || goto failed
show net0.dhcp/ip
show net0.dhcp/gateway
show net0.dhcp/netmask
goto end
:failed
echo dhcp-failed
:end
sleep 1
reboot
`

// TestTry gives QEMU the options that socket_vmnet2 try prints, by way of a shell. The machine in it gets an
// address in the subnet that was chosen, and nothing is left afterwards.
func TestTry(t *testing.T) {
	l := newLab(t)
	script := l.Path("try.ipxe")
	require.NoError(t, os.WriteFile(script, []byte("#!ipxe\n"+leaseScript), 0o600))
	c := exec.CommandContext(within(t, 4*time.Minute), daemonNew, "try", "--json")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	var ready struct {
		Gateway string
		Socket  string
		Lines   []struct{ For, Use string }
	}
	require.NoError(t, json.Unmarshal(lines.Bytes(), &ready), "%s", lines.Text())

	var use string
	for _, line := range ready.Lines {
		if line.For == "qemu" {
			use = line.Use
		}
	}
	require.NotEmpty(t, use)
	// Without the card's boot ROM, which not every QEMU has, and which this machine needs not.
	use = strings.Replace(use, "virtio-net-pci,", "virtio-net-pci,romfile=,", 1)
	qemu := exec.CommandContext(within(t, 3*time.Minute), "/bin/sh", "-c", `exec "$0" "$@" `+use,
		tools.QEMU, "-accel", "tcg", "-m", "128", "-no-reboot", "-nographic", "-kernel", tools.IPXE, "-initrd", script)
	out, err := qemu.CombinedOutput()
	require.NoError(t, err, "%s\n%s", use, out)
	assert.Contains(t, string(out), "net0.dhcp/gateway:ipv4 = "+ready.Gateway)
	assert.Contains(t, string(out), "net0.dhcp/ip:ipv4 = "+strings.TrimSuffix(ready.Gateway, "1"))

	require.NoError(t, c.Process.Signal(syscall.SIGINT))
	assert.False(t, lines.Scan(), "one line")
	require.NoError(t, c.Wait())
	assert.NoDirExists(t, filepath.Dir(ready.Socket))
}
