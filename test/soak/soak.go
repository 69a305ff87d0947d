// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// maxClients is the daemon's --max-clients. It is never reached.
const maxClients = 1024

// The network that daemons are told to make. What DHCP gives away ends where the witnesses' own addresses begin.
var (
	gatewayAddr = netip.AddrFrom4([4]byte{192, 168, 105, 1})
	aliasAddr   = netip.AddrFrom4([4]byte{192, 168, 105, 254})
	dhcpEnd     = netip.AddrFrom4([4]byte{192, 168, 105, 99})
	witnessAddr = netip.AddrFrom4([4]byte{192, 168, 105, 200})
)

// soak is one run. The result is nil when there was none.
func soak(ctx context.Context, o options, out io.Writer) (*result, error) {
	r, cleanup, err := prepare(ctx, o, out)
	if err != nil {
		return nil, err
	}
	if o.enough != nil {
		r.enough = func() bool { return o.enough(r.result()) }
	}
	_, _ = fmt.Fprintf(out, "soak: seed %d, %d clients, %s on %s, files in %s\n", r.o.Seed, r.o.Clients, r.o.Duration, r.o.Backend, r.o.Dir)
	stop := lab.Every(max(lab.TellEvery, r.o.Duration/60), func(passed time.Duration) {
		t := &r.totals
		r.sample()
		r.printing.Lock()
		defer r.printing.Unlock()
		_, _ = fmt.Fprintf(out, "soak: %v: %d connections, %d frames, %d starts, %d upgrades, %d violations\n", passed,
			t.connections.Load(), t.sent.Load(), t.starts.Load(), t.upgrades.Load(), sum(r.ledger.Counts()))
	})
	err = r.run(ctx)
	stop()
	res := r.result()
	cleanup(err == nil && len(res.Violations) == 0)
	return res, err
}

// prepare builds what is needed. cleanup ends what runs, and removes the files if all was well.
func prepare(ctx context.Context, o options, out io.Writer) (r *run, cleanup func(well bool), err error) {
	if err = o.check(); err != nil {
		return nil, nil, err
	}
	made := o.Dir == ""
	if made {
		if o.Dir, err = os.MkdirTemp("", "soak"); err != nil {
			return nil, nil, err
		}
	}
	r = &run{o: o, began: time.Now(), machine: lab.ThisMachine(ctx)}
	cleanup = func(well bool) {
		if r.daemon != nil {
			_ = r.daemon.lab.Close()
		}
		if made && well {
			_ = os.RemoveAll(o.Dir)
		}
	}
	if err = r.files(ctx); err != nil {
		cleanup(true)
		return nil, nil, err
	}
	r.ledger = ledger.New(ledger.Options{
		Run: uint32(o.Seed), Now: r.now, Alien: r.alien,
		Report: func(v ledger.Violation) {
			r.printing.Lock()
			defer r.printing.Unlock()
			_, _ = fmt.Fprintf(out, "soak: %8.3f %s: %s\n", v.At.Seconds(), v.Kind, v.Text)
		},
	})
	r.people()
	return r, cleanup, nil
}

// files makes directories, the daemon and the logs.
func (r *run) files(ctx context.Context) error {
	o := &r.o
	r.socket = filepath.Join(o.Dir, "s")
	// Below the ports that the system gives to connections, so that it is still free after a restart.
	for port := 20_000 + rand.N(10_000); r.metrics == ""; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			r.metrics = l.Addr().String()
			_ = l.Close()
		}
	}
	clients := filepath.Join(o.Dir, "c")
	for _, d := range []string{clients, filepath.Join(o.Dir, "bin"), filepath.Join(o.Dir, "sim")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(o.Dir, 0o755); err != nil { // others may try what they can
		return err
	}
	r.ways = vnettest.Ways(r.socket, clients)
	// Both are the same program: what is run is replaced by upgrades, what it is replaced by is kept.
	binary, good := filepath.Join(o.Dir, "bin", "socket_vmnet2"), filepath.Join(o.Dir, "socket_vmnet2")
	if err := r.build(ctx, good); err != nil {
		return err
	}
	if err := lab.Install(good, binary); err != nil {
		return err
	}
	args, err := r.arguments(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.Dir, "daemon.log"))
	if err != nil {
		return err
	}
	r.book = &book{r: r, file: log, entries: map[[6]byte]*entry{}}
	l, err := lab.New(ctx, lab.Options{Line: r.book.line})
	if err != nil {
		return err
	}
	r.daemon = &daemon{
		r: r, lab: l, binary: binary, good: good, args: args, env: []string{"DEBUG=1", "GORACE=halt_on_error=0"},
		changed: make(chan struct{}), ends: map[int]bool{},
	}
	return nil
}

// build builds the daemon, or takes the one that was given.
func (r *run) build(ctx context.Context, to string) error {
	if r.o.Binary != "" {
		return lab.Install(r.o.Binary, to)
	}
	var args []string
	if r.o.Backend == backendSimulator {
		args = append(args, "-tags", "vmnetsim")
	}
	if r.o.Race {
		args = append(args, "-race")
	}
	return lab.BuildGo(ctx, "./cmd/socket_vmnet2", to, args...)
}

// arguments are the daemon's.
func (r *run) arguments(ctx context.Context) ([]string, error) {
	args := []string{
		"--vmnet-gateway=" + gatewayAddr.String(), "--vmnet-dhcp-end=" + dhcpEnd.String(), "--max-clients=" + strconv.Itoa(maxClients),
		"--state-dir=" + filepath.Join(r.o.Dir, "state"), "--runtime-dir=" + r.socket + ".d",
		"--pidfile=" + filepath.Join(r.o.Dir, "pid"), "--allow-uid=" + strconv.Itoa(os.Getuid()),
		"--metrics-listen=" + r.metrics,
	}
	if group, err := user.LookupGroupId(strconv.Itoa(member)); err == nil && othersAreOthers {
		args = append(args, "--socket-group="+group.Name)
	}
	if r.o.AntiSpoof {
		args = append(args, "--anti-spoof")
	}
	if r.o.Backend == backendSimulator {
		lib, err := vmnetsim.Build(ctx, vmnetsim.Full)
		if err != nil {
			return nil, err
		}
		args = append(args, "--backend=vmnet", "--vmnetsim-lib="+lib, "--vmnetsim-dir="+filepath.Join(r.o.Dir, "sim"))
	} else {
		args = append(args, "--backend=usernet")
	}
	return append(args, r.socket), nil
}
