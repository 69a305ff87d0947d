// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// tshark is where it is on this machine.
func tshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err)
		}
		t.Skip("needs tshark: test/e2e/setup.sh")
	}
	return path
}

// TestCapture: tshark reads two guests live.
func TestCapture(t *testing.T) {
	shark := tshark(t)
	l := newLab(t)
	d := startDaemon(t, l, daemonNew, l.Path("s"))
	live := startCapture(t, d.Socket, shark)
	guests := boot(
		t, l,
		lab.GuestOptions{Name: "one", MAC: "52:54:00:e2:e0:01", Netdev: lab.StreamNetdev(d.Socket, 0), QEMU: tools.NewQEMU},
		lab.GuestOptions{Name: "two", MAC: "52:54:00:e2:e0:02", Netdev: lab.StreamNetdev(d.Socket, 0), QEMU: tools.NewQEMU},
	)
	var ips []string
	for _, g := range guests {
		ips = append(ips, dhcp(t, g).IP)
	}
	for i, g := range guests {
		for _, to := range []string{gateway, ips[1-i]} {
			ping(t, g, to)
		}
	}
	rows := live.end(t)
	got := map[string]bool{} // by interface and direction
	var icmps, dhcps int
	for _, r := range rows {
		got[r[0]+r[1]] = true
		icmps += strings.Count(r[2], ":icmp:data")
		dhcps += strings.Count(r[2], ":dhcp")
	}
	assert.Len(t, got, 4, "two guests, both directions")
	assert.GreaterOrEqual(t, dhcps, 2*4, "what is said for two leases")
	assert.GreaterOrEqual(t, icmps, 2*2+2*4, "what is between guests is there twice")
	t.Logf("%d frames: %v", len(rows), got)
}

// A liveCapture is a capture that tshark reads.
type liveCapture struct {
	capture, shark *exec.Cmd
	out            bytes.Buffer
	said           vnettest.Log
	done           chan struct{}
}

// startCapture is `socket_vmnet2 capture -w - | tshark -r -`, and returns when it has begun.
func startCapture(t *testing.T, socket, shark string) *liveCapture {
	t.Helper()
	c := &liveCapture{done: make(chan struct{})}
	c.capture = exec.Command(daemonNew, "capture", "-w", "-", socket)
	c.capture.Stderr = &c.said
	c.shark = exec.Command(shark, "-n", "-l", "-r", "-", "-T", "fields",
		"-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "frame.protocols")
	c.shark.Stdout = &c.out
	r, w, err := os.Pipe()
	require.NoError(t, err)
	c.capture.Stdout, c.shark.Stdin = w, r
	require.NoError(t, c.capture.Start())
	require.NoError(t, c.shark.Start())
	_, _ = w.Close(), r.Close()
	go func() {
		defer close(c.done)
		_ = c.capture.Wait()
		_ = c.shark.Wait()
	}()
	t.Cleanup(func() {
		_, _ = c.capture.Process.Kill(), c.shark.Process.Kill()
		<-c.done
	})
	require.Eventually(t, func() bool { return strings.Contains(c.said.String(), "capturing at") }, time.Minute, 10*time.Millisecond)
	return c
}

// end interrupts it and returns the fields of each frame.
func (c *liveCapture) end(t *testing.T) (rows [][]string) {
	t.Helper()
	require.NoError(t, c.capture.Process.Signal(os.Interrupt))
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		require.Fail(t, "the capture does not end", c.said.String())
	}
	for line := range strings.Lines(c.out.String()) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 3, line)
		if n := strings.TrimPrefix(f[1], "0x0000000"); n != "" {
			f[1] = n
		}
		rows = append(rows, f)
	}
	return rows
}
