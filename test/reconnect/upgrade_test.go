// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
)

// paceEvery is the time between two frames of a guest to the peer while its daemon is upgraded, pumpMbit what each guest
// sends to the next over TCP meanwhile.
const (
	paceEvery = 4 * time.Millisecond
	pumpMbit  = 5
)

// interfaceStart is how long an interface of the simulator may take to start: next to nothing, on a busy machine.
const interfaceStart = 100 * time.Millisecond

// TestUpgrade replaces the daemon in place under guests on each of its transports.
func TestUpgrade(t *testing.T) {
	testUpgrade(t, programs.New, Limits{Alive: true, Connected: true, MissingP50: 200 * time.Millisecond})
}

// TestUpgradeOnVmnet is the same with the vmnet back end, whose interfaces stop and start. It is in the long version only: the
// daemon's own tests have upgrades on vmnet.
func TestUpgradeOnVmnet(t *testing.T) {
	if !*long {
		return
	}
	testUpgrade(t, programs.Sim, Limits{Alive: true, Connected: true, MissingP50: interfaceStart + 500*time.Millisecond})
}

func testUpgrade(t *testing.T, program string, l Limits) {
	r := newRig(t, program, fmt.Sprintf("--allow-uid=%d", os.Getuid()))
	r.boot(
		t,
		lab.GuestOptions{Name: "stream", MAC: "52:54:00:e2:e9:01", Netdev: lab.StreamNetdev(r.socket, reconnectEvery), QEMU: tools.NewQEMU},
		lab.GuestOptions{
			Name: "fd=3 of socket_vmnet_client", MAC: "52:54:00:e2:e9:02", Netdev: lab.FD3Netdev, QEMU: tools.QEMU,
			Wrap: []string{programs.Client, r.socket},
		},
		lab.GuestOptions{
			Name: "dgram by path", MAC: "52:54:00:e2:e9:03", Netdev: lab.DgramPathNetdev(filepath.Join(r.socket+".d", "dgram", "sock")),
			QEMU: tools.NewQEMU,
		},
		lab.GuestOptions{
			Name: "dgram of exec", MAC: "52:54:00:e2:e9:04", Netdev: lab.DgramFDNetdev, QEMU: tools.NewQEMU,
			Wrap: []string{programs.New, "exec", "--dgram", r.socket, "--"},
		},
	)
	all := []int{0, 1, 2, 3}
	r.pump(t)
	for _, g := range r.guests {
		require.NoError(t, g.Pace(t.Context(), peerMAC, 200, paceEvery, "load"))
	}
	_, err := r.alive(t.Context(), patience, all...)
	require.NoError(t, err)
	began := time.Now()
	// Guests without a processor of their own have gaps by themselves. They come on top of those of an upgrade.
	nothing := trial{rig: r, name: "nothing happens for 1 s", guests: all, pace: paceEvery, event: func(*testing.T) { time.Sleep(time.Second) }}
	noise := 0.0
	for _, row := range nothing.run(t, times(1, 5)) {
		noise = max(noise, row.TX.Outage.P50, row.RX.Outage.P50)
	}
	l.OutageP50 = 2*l.MissingP50 + time.Duration(noise*float64(time.Millisecond))
	var gaps []time.Duration
	c := trial{
		rig: r, name: "upgrade in place", guests: all, pace: paceEvery, least: 20,
		event: func(t *testing.T) { gaps = append(gaps, r.upgrade(t)) },
	}
	c.keep(t, l, times(2, 20), tries)
	t.Logf("the daemon's own count of how long it carried nothing, in ms: %s", spreadOf(gaps))
	results.find("upgrade, "+r.backend, "all", "the daemon's own count of how long it carried nothing, in ms: %s", spreadOf(gaps))
	assert.Zero(t, r.peer.Ended(began), "the peer keeps its connection")
	r.pumped(t)
}

// pump has each guest send to the next over one TCP connection, so that each transport has both ends of one.
func (r *rig) pump(t *testing.T) {
	t.Helper()
	leases := make([]lab.Lease, len(r.guests))
	labtest.Each(t, r.guests, func(i int, g *lab.Guest) (err error) {
		if leases[i], err = g.DHCP(within(t, time.Minute)); err != nil {
			return err
		}
		return g.ServePump(t.Context())
	})
	for i, g := range r.guests {
		require.NoError(t, g.Pump(t.Context(), leases[(i+1)%len(leases)].IP, pumpMbit))
	}
}

// pumped wants every TCP connection to be there still, to go on, and to have carried what was sent.
func (r *rig) pumped(t *testing.T) {
	t.Helper()
	for i, g := range r.guests {
		to := r.names[i]
		before, err := g.Pumped(within(t, time.Minute))
		require.NoError(t, err)
		var now lab.Transfer
		require.Eventually(t, func() bool {
			now, err = g.Pumped(within(t, time.Minute))
			return err != nil || now.Bytes > before.Bytes
		}, patience, 100*time.Millisecond, "the connection to %s goes on: %+v", to, before)
		require.NoError(t, err)
		assert.Empty(t, now.Ended, "the connection to %s", to)
		assert.Zero(t, now.Bad, "pieces of the connection to %s that were not what was sent", to)
		sent, err := g.Pumping(within(t, time.Minute))
		require.NoError(t, err)
		assert.Empty(t, sent.Ended, "the connection from %s", to)
		t.Logf("TCP to %s: %d bytes, longest stall %s", to, now.Bytes, now.Stall)
		results.find("TCP through all upgrades, "+r.backend, to, "one connection, %.0f MB to it, none damaged, longest stall %d ms",
			float64(now.Bytes)/1e6, now.Stall.Milliseconds())
	}
}

// slowUpgrade is what an upgrade is given up with on a machine that has no time for it. The daemon is as before then.
var slowUpgrade = regexp.MustCompile(`did not answer within|took longer than|does not stand still`)

// upgrade puts a new file in the place of the daemon's program and has the daemon go on as that. It returns how long the
// daemon says that it carried nothing.
func (r *rig) upgrade(t *testing.T) time.Duration {
	t.Helper()
	var out []byte
	for try := 1; ; try++ {
		require.NoError(t, lab.Install(r.program, r.program))
		var err error
		out, err = exec.CommandContext(within(t, time.Minute), programs.New, "upgrade", "--json", r.socket).CombinedOutput()
		if err == nil {
			break
		}
		require.True(t, try < tries && slowUpgrade.Match(out), "%v: %s", err, out)
		t.Logf("try %d: %s", try, out)
	}
	var answer struct {
		PID     int            `json:"pid"`
		Gap     float64        `json:"gap_ms"`
		Clients map[string]int `json:"clients"`
	}
	require.NoError(t, json.Unmarshal(out, &answer), string(out))
	require.Equal(t, r.daemon.Pid(), answer.PID)
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", answer.PID))
	require.NoError(t, err)
	installed, err := os.Stat(r.program)
	require.NoError(t, err)
	require.True(t, os.SameFile(running, installed), "the daemon runs the program that was put there")
	kept := 0
	for _, n := range answer.Clients {
		kept += n
	}
	require.GreaterOrEqual(t, kept, len(r.guests)+1, "clients kept: %v", answer.Clients)
	return time.Duration(answer.Gap * float64(time.Millisecond))
}
