// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// The guests of a mixed network, in their order.
const (
	onStream = iota // -netdev stream with reconnect-ms
	onPath          // -netdev dgram with a path of its own
	onFD            // -netdev dgram on a descriptor from exec --dgram
	onOther         // -netdev socket on such a descriptor, or -netdev dgram on vmnet-helper's path
)

// aliveFrames is how many frames must have come from a guest that sends: at full speed it takes some ten milliseconds.
const aliveFrames = 100

// reconnectEvery is QEMU's reconnect-ms in these tests.
const reconnectEvery = 500 * time.Millisecond

// countMAC is the address of the stream client that counts.
const countMAC = "52:54:00:e2:e3:99"

// mixed is a daemon with a guest on each kind of socket.
type mixed struct {
	lab     *lab.Lab
	program string
	args    []string
	socket  string
	helper  *lab.Process // of the guest onOther, nil for exec
	daemon  *lab.Daemon
	guests  []*lab.Guest
	leases  []lab.Lease
}

// TestDatagram shows guests on datagrams beside one on a stream, and what becomes of each when the daemon ends. The guest with a
// path is root's own where root runs the tests, which --allow-uid lets it.
func TestDatagram(t *testing.T) {
	m := newMixed(t, daemonNew, "--allow-uid=0")
	reply := m.lab.Path("reply.json")
	m.boot(
		t,
		lab.GuestOptions{Name: "path", QEMU: tools.QEMU},
		lab.GuestOptions{Name: "fd", QEMU: tools.NewQEMU},
		lab.GuestOptions{
			Name: "socket", MAC: "{mac}", QEMU: tools.QEMU,
			Netdev: lab.FD3Netdev, Wrap: []string{daemonNew, "exec", "--dgram", "--json=" + reply, m.socket, "--"},
		},
	)
	t.Run("interface address", func(t *testing.T) {
		text, err := os.ReadFile(reply)
		require.NoError(t, err)
		assert.Equal(t, m.guests[onOther].MAC, interfaceMAC(t, text), "exec puts it in the place of {mac}")
	})
	m.run(t)
}

// TestDatagramOnVmnet has such guests reach each other through the vmnet back end on the simulator, with the two QEMUs changed
// over. The fourth guest sends to a path too, vmnet-helper's, which hands it to the daemon, and to the next one.
func TestDatagramOnVmnet(t *testing.T) {
	m := newMixed(t, daemonSim, "--allow-uid=0")
	socket := m.lab.Path("helper")
	var err error
	m.helper, err = m.lab.Start("vmnet-helper", helper, "--daemon", m.socket, "--socket", socket, "--operation-mode", "shared")
	require.NoError(t, err)
	told, err := m.helper.Output().WaitFor(within(t, time.Minute), "vmnet_mac_address")
	require.NoError(t, err, m.helper.Output())
	m.boot(
		t,
		lab.GuestOptions{Name: "path", QEMU: tools.NewQEMU},
		lab.GuestOptions{Name: "fd", QEMU: tools.QEMU},
		lab.GuestOptions{
			Name: "helper", MAC: interfaceMAC(t, []byte(told)), QEMU: tools.NewQEMU, Netdev: lab.DgramPathNetdev(socket),
		},
	)
	t.Run("lease", m.testLease)
	if t.Failed() {
		return
	}
	t.Run("ping", m.testPing)
	t.Run("stop under load", m.testStop)
	t.Run("a descriptor ends with the daemon", m.testDescriptorsEnded)
}

// interfaceMAC is the vmnet_mac_address of a reply.
func interfaceMAC(t *testing.T, reply []byte) string {
	t.Helper()
	var r struct {
		MAC string `json:"vmnet_mac_address"`
	}
	require.NoError(t, json.Unmarshal(reply, &r), "%s", reply)
	return mustMAC(t, r.MAC).String()
}

// newMixed starts program.
func newMixed(t *testing.T, program string, args ...string) *mixed {
	t.Helper()
	l := newLab(t)
	m := &mixed{lab: l, program: program, args: args, socket: l.Path("socket_vmnet")}
	m.start(t)
	return m
}

// boot boots the guest on a stream and the others, of which the caller says what differs between the tests.
func (m *mixed) boot(t *testing.T, path, fd, other lab.GuestOptions) {
	t.Helper()
	path.MAC, path.Netdev = "52:54:00:e2:e3:02", lab.DgramPathNetdev(filepath.Join(m.socket+".d", "dgram", "sock"))
	fd.MAC, fd.Netdev = "52:54:00:e2:e3:03", lab.DgramFDNetdev
	fd.Wrap = []string{daemonNew, "exec", "--dgram", m.socket, "--"}
	m.guests = boot(
		t, m.lab,
		lab.GuestOptions{
			Name: "stream", MAC: "52:54:00:e2:e3:01", QEMU: tools.NewQEMU,
			Netdev: lab.StreamNetdev(m.socket, reconnectEvery),
		},
		path, fd, other,
	)
	m.leases = make([]lab.Lease, len(m.guests))
}

func (m *mixed) start(t *testing.T) {
	t.Helper()
	m.daemon = startDaemon(t, m.lab, m.program, m.socket, append([]string{"--pidfile=" + m.lab.Path("pid")}, m.args...)...)
}

func (m *mixed) run(t *testing.T) {
	t.Run("lease", m.testLease)
	if t.Failed() {
		return // nothing below can work
	}
	t.Run("ping", m.testPing)
	t.Run("unicast is private", m.testPrivate)
	t.Run("stop under load", m.testStop)
	if t.Failed() {
		return
	}
	t.Run("a descriptor ends with the daemon", m.testDescriptorsEnded)
	t.Run("stop and start", func(t *testing.T) { m.testRestart(t, syscall.SIGTERM) })
	t.Run("kill and start", func(t *testing.T) { m.testRestart(t, syscall.SIGKILL) })
	t.Run("kill a daemon that hangs", m.testStalledKill)
}

func (m *mixed) testLease(t *testing.T) {
	each(t, m.guests, func(i int, g *lab.Guest) (err error) {
		m.leases[i], err = g.DHCP(within(t, time.Minute))
		return err
	})
	owner := map[string]string{gateway: "gateway"}
	for i, g := range m.guests {
		t.Logf("%s: %s", g.Name, m.leases[i].IP)
		assert.Equal(t, gateway, m.leases[i].Router)
		assert.Empty(t, owner[m.leases[i].IP], "%s has the address of another", g.Name)
		owner[m.leases[i].IP] = g.Name
	}
}

// testPing: every guest reaches every other.
func (m *mixed) testPing(t *testing.T) {
	each(t, m.guests, func(i int, g *lab.Guest) error {
		to := map[string]string{"gateway": gateway}
		for j, lease := range m.leases {
			if j != i {
				to[m.guests[j].Name] = lease.IP
			}
		}
		for name, ip := range to {
			mean, err := g.Ping(within(t, time.Minute), ip)
			if err != nil {
				return err
			}
			t.Logf("%s to %s: %s", g.Name, name, mean)
		}
		return nil
	})
}

// testPrivate: what one datagram guest sends to another does not reach a client on a stream.
func (m *mixed) testPrivate(t *testing.T) {
	third := m.count(t)
	defer third.Close()
	path, fd := m.guests[onPath], m.guests[onFD]
	sendsTo(t, path, fd)
	sendsTo(t, fd, path)
	for _, g := range []*lab.Guest{path, fd} {
		assert.Zero(t, third.From(g.MAC).Frames, "frames of %s that were meant for another guest", g.Name)
		sendsToCounter(t, g, third)
	}
	require.Empty(t, third.Faults())
}

func (m *mixed) count(t *testing.T) *lab.Peer { return count(t, m.lab, m.socket) }

// sends waits until frames of g arrive at c.
func (m *mixed) sends(t *testing.T, c *lab.Peer, g *lab.Guest) {
	t.Helper()
	require.Eventually(t, func() bool { return c.From(g.MAC).Frames > aliveFrames }, patience, 20*time.Millisecond,
		"frames of %s", g.Name)
}
