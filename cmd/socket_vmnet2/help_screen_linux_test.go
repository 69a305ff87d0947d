// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestHelpScreen: the texts fit into a terminal as wide as it is, and have no colours.
func TestHelpScreen(t *testing.T) {
	for width, longest := range map[uint16]int{40: 40, 80: 80, 200: 120, 0: 80} {
		for _, args := range [][]string{{"--help"}, {"status", "--help"}, {"help", "status"}} {
			w := open(t, width, 50, []string{"TERM=xterm", "GORACE=atexit_sleep_ms=0"}, args...)
			if w == nil {
				return
			}
			most := 0
			for _, line := range w.lines(t) {
				if len(strings.Fields(line)) > 1 {
					most = max(most, len(line))
				}
			}
			assert.LessOrEqual(t, most, longest)
			assert.Greater(t, most, longest*3/4, "the width is used")
			assert.NotContains(t, w.stdout.String(), "\x1b")
		}
	}
	w := open(t, 80, 50, []string{"COLUMNS=40", "GORACE=atexit_sleep_ms=0"}, "--help")
	assert.Contains(t, w.lines(t), "Connects virtual machines (QEMU, Lima,", "COLUMNS goes before the terminal")
}

// TestGreeting: on a terminal, and there alone, the daemon says how a VM gets into its network.
func TestGreeting(t *testing.T) {
	for name, tt := range map[string]struct {
		want bool
		args []string
	}{
		"ready":        {true, nil},
		"for programs": {false, []string{"--log-format=json"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := vnettest.ShortDir(t)
			sock, pid := filepath.Join(dir, "s"), filepath.Join(dir, "pid")
			w := open(t, 80, 50, nil, append(tt.args, "--backend=usernet", "--pidfile="+pid, "--state-dir="+dir+"/state", gatewayFlag, sock)...)
			if w == nil {
				return
			}
			line := regexp.MustCompile(`(?m)^ready: start QEMU with -device virtio-net-pci,netdev=n0,mac=52:54:00:[0-9a-f:]{8} ` +
				`-netdev stream,id=n0,server=off,addr.type=unix,addr.path=` + sock + "\r$")
			require.Eventually(t, func() bool {
				_, err := os.Stat(pid)
				return err == nil && (!tt.want || line.MatchString(w.stdout.String()))
			}, patience, 10*time.Millisecond, "%s", w.stdout)
			require.NoError(t, w.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, tt.want, strings.Contains(strings.Join(w.lines(t), "\n"), "ready:"))
		})
	}
	p := start(t)
	p.stop(t)
	assert.NotContains(t, p.stderr.String(), "ready:", "in a pipe, as of a service")
}
