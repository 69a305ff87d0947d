// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// stateRoot is a directory that only this user can change, all the way up from it, as the daemon wants for its state.
func stateRoot(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(home, ".socket_vmnet2-test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func guest(t *testing.T, p *process, last byte) *fakeguest.Guest {
	t.Helper()
	return vnettest.Dial(t, p.sock, fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 1, last}, Timeout: patience})
}

func TestAddressesSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := stateRoot(t)
	sock := filepath.Join(t.TempDir(), "s")
	addrs := map[byte]netip.Prefix{}
	for round := range 3 {
		p := launch(t, "socket_vmnet2", sock, "--vmnet-gateway=192.168.105.1", "--state-dir="+dir)
		p.ready(t)
		order := []byte{1, 2, 3}
		if round%2 == 1 { // who asks first does not matter
			order = []byte{3, 2, 1}
		}
		for _, n := range order {
			g := guest(t, p, n)
			l, err := g.Configure()
			require.NoError(t, err)
			assert.Equal(t, netip.MustParseAddr("192.168.105.1"), l.Server)
			if round > 0 {
				assert.Equal(t, addrs[n], l.Addr, "round %d, guest %d", round, n)
			}
			addrs[n] = l.Addr
			_, err = g.Ping(l.Server, 3)
			assert.NoError(t, err)
			g.Close()
		}
		if round == 0 {
			require.Eventually(t, func() bool { // a crash may lose the last second, not more
				b, _ := os.ReadFile(filepath.Join(dir, state.FileName(sock)))
				return strings.Contains(string(b), "02:00:00:00:01:01") && strings.Contains(string(b), "02:00:00:00:01:02") &&
					strings.Contains(string(b), "02:00:00:00:01:03")
			}, patience, 10*time.Millisecond)
			require.NoError(t, p.Process.Kill())
			<-p.ended
			continue
		}
		code, _ := p.signal(t, syscall.SIGTERM)
		assert.Zero(t, code)
	}
	assert.Equal(t, netip.MustParsePrefix("192.168.105.2/24"), addrs[1])
}
