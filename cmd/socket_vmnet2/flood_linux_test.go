// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestFloodWithFewDescriptors: with RLIMIT_NOFILE 256, a guest that begins all flows it can leaves others their TCP, and the daemon its new
// clients, status and upgrades.
func TestFloodWithFewDescriptors(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	to := netip.AddrPortFrom(hostAlias, l.Addr().(*net.TCPAddr).AddrPort().Port())
	for _, kind := range floods[2:] {
		sock := filepath.Join(vnettest.ShortDir(t), "s")
		c := command("socket_vmnet2", sock, gatewayFlag, "--backend=usernet")
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 256; exec "$@"`, "sh"}, c.Args...)
		p := runDaemon(t, c, sock)
		p.ready(t)
		victim := configured(t, p, 100)
		f := exec.Command(os.Args[0])
		f.Env = append(os.Environ(), fmt.Sprintf("%s=%s,1,%s", floodEnv, kind, p.sock))
		require.NoError(t, f.Start())
		p.serving(t, 2)
		time.Sleep(*floodTime)
		answers := victim.Listen(func(f []byte) bool {
			p, err := fakeguest.Parse(f)
			return err == nil && p.TCPFlags == fakeguest.TCPSyn|fakeguest.TCPAck
		})
		for port := range uint16(20) {
			require.NoError(t, victim.out(fakeguest.TCPPacket(netip.AddrPortFrom(victim.Addr().Addr(), 2000+port), to, fakeguest.TCPSyn, 1, 0)))
			_, err := answers.Next(patience)
			require.NoError(t, err, "%s: TCP connection %d", kind, port)
		}
		configured(t, p, 101)
		_, stderr, err := p.upgrade(t)
		assert.NoError(t, err, "%s: %s", kind, stderr)
		p.serving(t, 3)
		configured(t, p, 102)
		_ = f.Process.Kill()
		_ = f.Wait()
		p.stop(t)
	}
}
