// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// Gateways of others, which serve the stream socket's protocol as well.
const (
	Slirp   = "slirp"   // QEMU's user network, by a hub
	Passt   = "passt"   // Debian's
	Gvproxy = "gvproxy" // gvproxyVersion
)

const (
	gvproxy        = "github.com/containers/gvisor-tap-vsock/cmd/gvproxy"
	gvproxyVersion = "v0.8.9"
)

// addresses are a guest's, and that by which it reaches the host's loopback, of kinds that have a gateway.
var addresses = map[string]struct{ guest, host string }{
	Daemon: {"192.168.105.9", "192.168.105.254"}, Slirp: {"10.0.2.9", "10.0.2.2"}, Passt: {"10.0.2.9", "10.0.2.2"},
	Gvproxy: {"192.168.127.9", "192.168.127.254"},
}

// otherGateways are those of others.
func otherGateways() []Kind {
	return []Kind{
		{Name: Slirp, Command: func(_ *Rig, l *Relay) ([]string, error) {
			return []string{
				"qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", "none", "-netdev", "user,id=user",
				"-netdev", "stream,id=guest,server=on,addr.type=unix,addr.path=" + l.Socket,
				"-netdev", "hubport,id=a,hubid=0,netdev=user", "-netdev", "hubport,id=b,hubid=0,netdev=guest",
			}, nil
		}},
		{Name: Passt, Command: func(_ *Rig, l *Relay) ([]string, error) {
			at := addresses[Passt]
			return []string{"passt", "--foreground", "--runas", strconv.Itoa(os.Getuid()), "-a", at.guest, "-n", "24", "-g", at.host, "-s", l.Socket}, nil
		}},
		{Name: Gvproxy, Prepare: func(ctx context.Context, r *Rig) error {
			return r.command(ctx, []string{"GOBIN=" + r.lab.Dir}, "install", gvproxy+"@"+gvproxyVersion)
		}, Command: func(r *Rig, l *Relay) ([]string, error) {
			return []string{filepath.Join(r.lab.Dir, "gvproxy"), "-listen-qemu", "unix://" + l.Socket, "-ssh-port", "-1"}, nil
		}},
	}
}

// payload is what a frame of 1514 bytes carries of TCP, in bytes.
const payload = 1448

// guestScript is a guest: a network of its own, whose kernel is a client of the relay. Its arguments are the path of csrc/tap.c's program, the
// socket, the guest's address and iperf3's arguments.
const guestScript = `ip tuntap add tap0 mode tap
ip address add "$3"/24 dev tap0
ip link set tap0 up
"$1" "$2" tap0 &
trap "kill $!" EXIT
shift 3
iperf3 --json "$@"`

// Transfer measures TCP between a guest and the host through the gateway of a relay, which Prepare has prepared: what arrived, in frames as if
// all were full, and what the processes of the relay needed for it. It needs iperf3, ip, unshare and /dev/net/tun.
func (r *Rig) Transfer(ctx context.Context, kind string, toGuest bool) (res Result, err error) {
	tap, err := compile(ctx, "tap", nil, "wire.c")
	if err != nil {
		return res, err
	}
	port, server, err := r.lab.ServeIPerf(ctx, "iperf3")
	if err != nil {
		return res, err
	}
	defer server.Kill()
	to, err := r.Start(kind)
	if err != nil {
		return res, err
	}
	at := addresses[kind]
	args := []string{"unshare", "--map-root-user", "--net", "sh", "-ec", guestScript, "sh", tap, to.Socket, at.guest, "-c", at.host, "-p", port, "-t", "1"}
	if toGuest {
		args = append(args, "-R")
	}
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	report, parseErr := lab.ParseIPerf(out)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	use, useErr := lab.UseOf(to.PID())
	gateway, _ := lab.UseOf(lab.Child(to.PID())) // only the daemon has one
	if kind == Daemon {
		err = errors.Join(err, to.Stop())
	} else {
		to.process.Kill() // some end with their only client
	}
	if err = errors.Join(parseErr, err, useErr); err != nil {
		return res, fmt.Errorf("send through %s: %w%s", kind, err, to.Diagnosis())
	}
	end := report.End.Received
	return Result{Received: int64(end.Bytes / payload), WallNS: int64(end.Seconds * 1e9), RelayCPUNS: int64(use.CPU + gateway.CPU)}, nil
}

// Gbit is what a Transfer's rate is, without headers.
func (r Result) Gbit() float64 { return r.Rate() * payload * 8 / 1e9 }
