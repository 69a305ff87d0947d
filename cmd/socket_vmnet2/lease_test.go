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

func TestDamagedStateIsIgnored(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"cut off":       func(t *testing.T, p string) { require.NoError(t, os.Truncate(p, 20)) },
		"not JSON":      func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, []byte("\x00\xff{"), 0o600)) },
		"open to all":   func(t *testing.T, p string) { require.NoError(t, os.Chmod(p, 0o666)) },
		"other version": func(t *testing.T, p string) { require.NoError(t, os.WriteFile(p, []byte(`{"version":99}`), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := stateRoot(t)
			sock := filepath.Join(t.TempDir(), "s")
			run := func() *process {
				p := launch(t, "socket_vmnet2", sock, "--vmnet-gateway=192.168.105.1", "--state-dir="+dir)
				p.ready(t)
				g := guest(t, p, 1)
				l, err := g.Configure()
				require.NoError(t, err)
				assert.Equal(t, netip.MustParsePrefix("192.168.105.2/24"), l.Addr)
				g.Close()
				code, _ := p.signal(t, syscall.SIGTERM)
				require.Zero(t, code)
				return p
			}
			p := run()
			assert.NotContains(t, p.stderr.String(), "WARN")
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			damage(t, files[0])
			p = run()
			p.says(t, "WARN | ")
			p.says(t, files[0], "it names the file")
		})
	}
}

func TestHostModeHasLeasesAndNoWayOut(t *testing.T) {
	p := start(t, "--vmnet-mode=host", "--vmnet-gateway=192.168.106.1")
	g := guest(t, p, 1)
	l, err := g.Configure()
	require.NoError(t, err)
	assert.Equal(t, netip.MustParsePrefix("192.168.106.2/24"), l.Addr)
	_, err = g.Ping(l.Server, 1)
	assert.NoError(t, err)
}

func TestDisabledDHCPAnswersNobody(t *testing.T) {
	p := start(t, "--vmnet-disable-dhcp", "--vmnet-gateway=192.168.106.1")
	_, err := vnettest.Dial(t, p.sock, fakeguest.Options{}).Configure()
	assert.ErrorIs(t, err, fakeguest.ErrTimeout)
	g := guest(t, p, 1)
	g.SetAddr(netip.MustParsePrefix("192.168.106.50/24"), netip.MustParseAddr("192.168.106.1"))
	_, err = g.Ping(netip.MustParseAddr("192.168.106.1"), 1)
	assert.NoError(t, err, "the gateway is there all the same")
}
