// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// maxClients is the daemon's --max-clients. It is never reached.
const maxClients = 1024

// The network that daemons are told to make. What DHCP gives away ends where the witnesses' own addresses begin.
var (
	gatewayAddr = netip.AddrFrom4([4]byte{192, 168, 105, 1})
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
		r.enough = func() bool { return o.enough(r.result(nil)) }
	}
	_, _ = fmt.Fprintf(out, "soak: seed %d, %d clients, %s on %s, files in %s\n", r.o.Seed, r.o.Clients, r.o.Duration, r.o.Backend, r.o.Dir)
	err = r.run(ctx)
	res := r.result(err)
	cleanup(err == nil && len(res.Violations) == 0)
	return res, err
}

// prepare builds what is needed. cleanup removes the files if all was well.
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
	cleanup = func(well bool) {
		if made && well {
			_ = os.RemoveAll(o.Dir)
		}
	}
	defer func(cleanup func(bool)) {
		if err != nil {
			cleanup(true)
		}
	}(cleanup)
	r = &run{o: o, gate: newGate(), began: time.Now()}
	if err = r.files(ctx); err != nil {
		return nil, nil, err
	}
	r.ledger = ledger.New(ledger.Options{
		Run: uint32(o.Seed), Strict: o.AntiSpoof, Now: r.now, Alien: r.alien,
		Report: func(v ledger.Violation) {
			_, _ = fmt.Fprintf(out, "soak: %8.3f %s: %s\n", v.At.Seconds(), v.Kind, v.Text)
		},
	})
	r.people()
	return r, cleanup, nil
}

// files makes directories, the daemon and the logs.
func (r *run) files(ctx context.Context) error {
	o := &r.o
	r.place = place{socket: filepath.Join(o.Dir, "s"), dir: filepath.Join(o.Dir, "c")}
	for _, d := range []string{r.place.dir, filepath.Join(o.Dir, "bin"), filepath.Join(o.Dir, "sim")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	// Both are the same program: what is run is replaced by upgrades, what it is replaced by is kept.
	binary, good := filepath.Join(o.Dir, "bin", "socket_vmnet2"), filepath.Join(o.Dir, "socket_vmnet2")
	if err := r.build(ctx, good); err != nil {
		return err
	}
	if err := install(good, binary); err != nil {
		return err
	}
	args, err := r.arguments(ctx)
	if err != nil {
		return err
	}
	if r.daemon = newDaemon(r, binary, good, args, []string{"DEBUG=1"}); o.Race {
		r.daemon.env = append(r.daemon.env, "GORACE=halt_on_error=0")
	}
	log, err := r.create("daemon.log")
	if err != nil {
		return err
	}
	r.book = newBook(r, log)
	decided, err := r.create("actions.jsonl")
	r.actions = &actions{f: decided, r: r}
	return err
}

// build builds the daemon, or takes the one that was given.
func (r *run) build(ctx context.Context, to string) error {
	if r.o.Binary != "" {
		return install(r.o.Binary, to)
	}
	args := []string{"build", "-o", to}
	if r.o.Backend == backendSimulator {
		args = append(args, "-tags", "vmnetsim")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/socket-vmnet2/socket_vmnet2/cmd/socket_vmnet2")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if r.o.Race {
		cmd.Args = append(cmd.Args[:2], append([]string{"-race"}, cmd.Args[2:]...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w\n%s", err, b)
	}
	return nil
}

// arguments are the daemon's.
func (r *run) arguments(ctx context.Context) ([]string, error) {
	args := []string{
		"--vmnet-gateway=" + gatewayAddr.String(), "--vmnet-dhcp-end=" + dhcpEnd.String(), "--max-clients=" + strconv.Itoa(maxClients),
		"--state-dir=" + filepath.Join(r.o.Dir, "state"), "--runtime-dir=" + r.place.socket + ".d",
		"--pidfile=" + filepath.Join(r.o.Dir, "pid"), "--allow-uid=" + strconv.Itoa(os.Getuid()),
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
	return append(args, r.place.socket), nil
}

// people makes those who come and go.
func (r *run) people() {
	for i := range r.o.Clients {
		r.guests = append(r.guests, &guest{r: r, id: i, via: transports[i%len(transports)], src: newSource(r.o.Seed, guestName(i))})
	}
	// By ways on which nothing is lost: to a daemon with --anti-spoof the first frame tells whose address is whose.
	for i, via := range []transport{viaStream, viaAdoptDgram, viaAttachDgram} {
		r.forgers = append(r.forgers, &forger{r: r, id: i, via: via, src: newSource(r.o.Seed, fmt.Sprint("forger ", i)), mac: newMAC(guestPrefix)})
	}
	r.watch = newWitnesses(r, gatewayAddr, witnessAddr)
}

// run runs everything until the time is over.
func (r *run) run(ctx context.Context) error {
	ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	actors, stop := context.WithCancel(ctx)
	defer stop()
	r.ctx = actors
	for _, g := range r.guests {
		r.wg.Go(func() { g.run(actors) })
	}
	for _, f := range r.forgers {
		r.wg.Go(func() { f.run(actors) })
	}
	for _, w := range r.watch.all {
		r.wg.Go(func() { w.run(actors) })
	}
	r.wg.Go(func() { r.watch.judge(actors) })
	r.wg.Go(func() { r.strain.watch(actors) })
	for name, kinds := range map[string][]choice[badThing]{
		"hostile streams": badStreams(), "hostile datagrams": badDatagrams(), "hostile requests": badRequests(),
	} {
		h := &hostile{r: r, name: name, src: newSource(r.o.Seed, name), kinds: kinds}
		r.wg.Go(func() { h.run(actors) })
	}
	err := r.direct(ctx, newSource(r.o.Seed, "director"))
	return errors.Join(err, r.finish(ctx, err, stop))
}

// finish has everybody leave once more, measures, and stops the daemon.
func (r *run) finish(ctx context.Context, failed error, stop func()) error {
	var err error
	if failed == nil && ctx.Err() == nil {
		err = r.calm(ctx)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errExited) {
		err = nil // it is a violation
	}
	r.gate.shut.Store(true)
	if r.daemon.pid() != 0 && !errors.Is(context.Cause(ctx), errExited) {
		r.totals.terms.Add(1)
		r.daemon.stop(syscall.SIGTERM)
	}
	stop()
	r.wg.Wait()
	r.ledger.EndLife()
	r.book.newLife()
	return err
}

// alien says whether a frame that is not the ledger's may be there: from the hostile, the gateway, or a witness that asks for it.
func (r *run) alien(f []byte) bool {
	if len(f) < 14 {
		return false
	}
	if f[6] == hostilePrefix {
		return true
	}
	if mac := r.watch.mac.Load(); mac != nil && [6]byte(f[6:12]) == *mac {
		return true
	}
	if f[6] == guestPrefix && f[12] == 0x80 && f[13] == 0x35 && len(f) == 60 && bytes.Equal(f[6:12], f[22:28]) {
		return true // RARP: the daemon tells a network where a guest is
	}
	p, err := fakeguest.Parse(f)
	return err == nil && p.ARPOp == fakeguest.ARPRequest && f[6] == guestPrefix && f[0] == 0xff && p.DstIP == gatewayAddr &&
		bytes.Equal(p.SenderMAC, net.HardwareAddr(f[6:12])) && strings.HasPrefix(p.SrcIP.String(), "192.168.105.20")
}
