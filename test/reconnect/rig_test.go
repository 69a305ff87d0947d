// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

const (
	// reconnectEvery is QEMU's reconnect-ms.
	reconnectEvery = 500 * time.Millisecond
	// peerEvery is the time between two frames of the peer to a guest, othersEvery that between two of a guest to the next.
	peerEvery, othersEvery = 2 * time.Millisecond, 10 * time.Millisecond

	peerMAC   = "52:54:00:e2:e7:99"
	loadBytes = 1400

	// aliveTX and aliveRX are how many frames must have come to call a direction alive. At full speed the first takes some
	// ten milliseconds.
	aliveTX, aliveRX = 100, 20
	// patience is how long a direction that must live may take. hopeless is how long one is waited for of which either is
	// fine: reconnecting takes half a second, and what comes then comes at once.
	patience, hopeless = 30 * time.Second, 3 * time.Second
)

// rig is a daemon with guests under load and a peer that counts.
type rig struct {
	lab     *lab.Lab
	socket  string
	program string
	backend string
	args    []string
	daemon  *lab.Daemon
	peer    *lab.Peer
	guests  []*lab.Guest
	names   []string        // of guests, for the table
	stops   []time.Duration // how long the daemon took to stop, in this case
}

// newRig starts program. The back end's name is for the table.
func newRig(t *testing.T, program string, args ...string) *rig {
	t.Helper()
	l := programs.NewLab(t)
	r := &rig{lab: l, socket: l.Path("socket_vmnet"), program: program, backend: "usernet", args: args}
	if program == programs.Sim {
		r.backend = "vmnet"
	}
	r.start(t)
	r.peer = l.NewPeer(r.socket, labtest.MAC(t, peerMAC), peerEvery, false)
	return r
}

// reconnecting are the options of the two guests that come back by themselves: with the send buffer the system gives, and
// with 4096 bytes, of which QEMU is blocked on a write most of the time.
func (r *rig) reconnecting(t *testing.T) []lab.GuestOptions {
	t.Helper()
	small, err := sendBuffer(t.Context(), r.lab, 4096)
	require.NoError(t, err)
	netdev := lab.StreamNetdev(r.socket, reconnectEvery)
	return []lab.GuestOptions{
		{Name: "default buffer", MAC: "52:54:00:e2:e7:01", Netdev: netdev, QEMU: tools.NewQEMU},
		{Name: "4 KiB buffer", MAC: "52:54:00:e2:e7:02", Netdev: netdev, QEMU: tools.NewQEMU, Env: small},
	}
}

// boot boots guests and has them watch what arrives.
func (r *rig) boot(t *testing.T, options ...lab.GuestOptions) {
	t.Helper()
	for i := range options {
		r.names = append(r.names, options[i].Name)
		options[i].Name = fmt.Sprintf("g%d", i)
	}
	r.guests = boot(t, r.lab, options...)
	labtest.Each(t, r.guests, func(_ int, g *lab.Guest) error {
		return errors.Join(g.Watch(t.Context()), r.peer.SendTo(g.MAC))
	})
}

// load has the guests of the given numbers send to the peer all they can, and each of them to the next one at a pace.
func (r *rig) load(t *testing.T, guests ...int) {
	t.Helper()
	for n, i := range guests {
		g, next := r.guests[i], r.guests[guests[(n+1)%len(guests)]]
		require.NoError(t, g.Pace(t.Context(), peerMAC, loadBytes, 0, "load"))
		if next != g {
			require.NoError(t, g.Pace(t.Context(), next.MAC, 200, othersEvery, "others"))
		}
	}
	_, err := r.alive(t.Context(), patience, guests...)
	require.NoError(t, err)
}

func (r *rig) start(t *testing.T) {
	t.Helper()
	r.daemon = programs.StartDaemon(t, r.lab, r.program, r.socket, r.args...)
}

// life says which directions of a guest have frames.
type life struct{ tx, rx bool }

// alive waits up to d until frames arrive from and at the given guests. It is an error when a guest's serial line fails, or
// with patience when a direction is dead.
func (r *rig) alive(ctx context.Context, d time.Duration, guests ...int) ([]life, error) {
	lives := make([]life, len(r.guests))
	return lives, lab.Together(len(guests), func(n int) (err error) {
		lives[guests[n]], err = r.guestAlive(ctx, guests[n], d)
		return err
	})
}

func (r *rig) guestAlive(ctx context.Context, i int, d time.Duration) (l life, err error) {
	g, end := r.guests[i], time.Now().Add(d)
	tx, rx := r.peer.From(g.MAC).Frames, uint64(0)
	for first := true; ; first = false {
		seen, err := r.seen(ctx, g, "count")
		if err != nil {
			return l, err
		}
		got := seen[peerMAC].Frames
		if first {
			rx = got
		}
		l.tx, l.rx = l.tx || r.peer.From(g.MAC).Frames >= tx+aliveTX, l.rx || got >= rx+aliveRX
		switch {
		case l.tx && l.rx:
			return l, nil
		case time.Now().Before(end):
			time.Sleep(20 * time.Millisecond)
		case d >= patience:
			return l, fmt.Errorf("%s: after %s frames arrive from it: %t, at it: %t", r.names[i], d, l.tx, l.rx)
		default:
			return l, nil
		}
	}
}

// seen is lab.Guest.Seen within a minute.
func (r *rig) seen(ctx context.Context, g *lab.Guest, word string) (map[string]sequence.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return g.Seen(ctx, word)
}

// revive is what a user can do for a guest whose network died with a connection: QEMU's stop and cont.
func (r *rig) revive(t *testing.T, i int) {
	t.Helper()
	for _, command := range []string{"stop", "cont"} {
		_, err := r.guests[i].QMP.Execute(command)
		require.NoError(t, err)
	}
	_, err := r.alive(t.Context(), patience, i)
	require.NoError(t, err, "after stop and cont")
}

// sendBuffer builds test/e2e/sndbuf with the machine's C compiler and returns what to add to a guest's Env so that QEMU's
// sockets get send buffers of size bytes.
func sendBuffer(ctx context.Context, l *lab.Lab, size int) ([]string, error) {
	root, err := lab.ModuleRoot()
	if err != nil {
		return nil, err
	}
	lib := l.Path("sndbuf.so")
	source := filepath.Join(root, "test", "e2e", "sndbuf", "sndbuf.c")
	out, err := exec.CommandContext(ctx, "gcc", "-shared", "-fPIC", "-O2", "-o", lib, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return []string{"SNDBUF=" + strconv.Itoa(size), "LD_PRELOAD=" + lib}, nil
}
