// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// gateway is socket_vmnet's usual one, alias is the last usable address of its subnet: there guests reach the host.
const (
	gateway = "192.168.105.1"
	alias   = "192.168.105.254"
)

// A demo is one run and what it has found out.
type demo struct {
	*progress
	lab    *lab.Lab
	bin    string
	socket string
	daemon *lab.Daemon
	page   *lab.Page
	vms    [3]vm
}

// A vm is a guest with its results.
type vm struct {
	*lab.Guest
	how           string // it is attached
	options       lab.GuestOptions
	next          *vm // whom it talks to
	lease         lab.Lease
	gateway, peer time.Duration
	fetch         time.Duration
}

// A step is one thing that a guest does, named in the message when it fails.
type step struct {
	name string
	do   func(ctx context.Context, v *vm) error
}

func (d *demo) play(ctx context.Context) error {
	talk := []step{{"ping the gateway", func(ctx context.Context, v *vm) error {
		return d.ping(ctx, v, &v.gateway, "the gateway", gateway)
	}}, {"ping the next guest", func(ctx context.Context, v *vm) error {
		return d.ping(ctx, v, &v.peer, fmt.Sprintf("%s (%s)", v.next.options.Name, v.next.lease.IP), v.next.lease.IP)
	}}}
	if d.socket == "" {
		if err := d.startHost(ctx); err != nil {
			return err
		}
		defer d.page.Close()
		talk = append(talk, step{"resolve host.internal", d.resolve}, step{"fetch a page from the host", d.fetch})
	}
	d.attach()
	// All have an address before the first of them looks for another.
	stop := lab.Every(lab.TellEvery, func(passed time.Duration) { d.sayf("demo", "booting for %v, usually 20 s without KVM", passed) })
	err := d.all(ctx, []step{{"boot", d.boot}, {"get a DHCP lease", d.lease}})
	stop()
	if err == nil {
		err = d.all(ctx, talk)
	}
	if err != nil {
		return err
	}
	return d.stop(ctx)
}

// attach says how each guest gets its network: each in another way.
func (d *demo) attach() {
	d.vms[0].how = "-netdev stream"
	d.vms[0].options = lab.GuestOptions{Name: "guest-1", MAC: "52:54:00:de:30:01", Netdev: lab.StreamNetdev(d.socket, 0)}
	d.vms[1].how = "socket_vmnet_client, fd 3"
	d.vms[1].options = lab.GuestOptions{
		Name: "guest-2", MAC: "52:54:00:de:30:02", Netdev: lab.FD3Netdev,
		Wrap: []string{filepath.Join(d.bin, "socket_vmnet_client"), d.socket},
	}
	d.vms[2].how = "socket_vmnet2 exec --dgram"
	d.vms[2].options = lab.GuestOptions{
		Name: "guest-3", MAC: "52:54:00:de:30:03", Netdev: lab.DgramFDNetdev,
		Wrap: []string{filepath.Join(d.bin, "socket_vmnet2"), "exec", "--dgram", d.socket, "--"},
	}
	for i := range d.vms {
		d.vms[i].next = &d.vms[(i+1)%len(d.vms)]
	}
}

func (d *demo) startHost(ctx context.Context) (err error) {
	if d.page, err = lab.ServePage(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	d.sayf("host", "serves a page on 127.0.0.1:%d, for the guests %s:%d", d.page.Port(), alias, d.page.Port())
	d.socket = d.lab.Path("socket_vmnet")
	args := []string{
		"--vmnet-gateway=" + gateway, "--vmnet-dhcp-end=" + alias, "--vmnet-mask=255.255.255.0",
		"--pidfile=" + d.lab.Path("pid"), d.socket,
	}
	program := filepath.Join(d.bin, "socket_vmnet")
	d.say("daemon", program+" "+strings.Join(args, " "))
	if d.daemon, err = d.lab.StartDaemon(ctx, program, args); err != nil {
		d.page.Close()
		return err
	}
	d.sayf("daemon", "takes connections, pid %d", d.daemon.Pid())
	return nil
}

// all has all guests go through the steps at the same time. The first failure ends the others' steps as well.
func (d *demo) all(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range d.vms {
		wg.Go(func() {
			v := &d.vms[i]
			for _, s := range steps {
				if err := s.do(ctx, v); err != nil {
					cancel(fmt.Errorf("%s: %s: %w", v.options.Name, s.name, err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (d *demo) boot(ctx context.Context, v *vm) (err error) {
	d.sayf(v.options.Name, "boots, attached by %s", v.how)
	if v.Guest, err = d.lab.Boot(ctx, v.options); err == nil {
		d.sayf(v.Name, "is up after %.1f s", v.Boot.Seconds())
	}
	return err
}

func (d *demo) lease(ctx context.Context, v *vm) (err error) {
	if v.lease, err = v.DHCP(ctx); err != nil {
		return err
	}
	d.sayf(v.Name, "has a lease: %s/%s, gateway %s, DNS %s", v.lease.IP, v.lease.Bits, v.lease.Router, v.lease.DNS)
	if v.lease.Router != gateway || !strings.HasPrefix(v.lease.IP, "192.168.105.") {
		return fmt.Errorf("got address %s and gateway %s, want one of 192.168.105.0/24 and %s", v.lease.IP, v.lease.Router, gateway)
	}
	return nil
}

func (d *demo) ping(ctx context.Context, v *vm, took *time.Duration, what, address string) (err error) {
	if *took, err = v.Ping(ctx, address); err == nil {
		d.sayf(v.Name, "pings %s: %s", what, ms(*took))
	}
	return err
}

func (d *demo) resolve(ctx context.Context, v *vm) error {
	address, err := v.Resolve(ctx, "host.internal")
	if err != nil {
		return err
	}
	d.sayf(v.Name, "resolves host.internal: %s", address)
	if address != alias {
		return fmt.Errorf("got %s, want %s", address, alias)
	}
	return nil
}

func (d *demo) fetch(ctx context.Context, v *vm) error {
	text, took, err := v.Fetch(ctx, fmt.Sprintf("http://host.internal:%d/", d.page.Port()))
	if err != nil {
		return err
	}
	if text != lab.PageText {
		return fmt.Errorf("got %q, want %q", text, lab.PageText)
	}
	v.fetch = took
	d.sayf(v.Name, "fetches a page from the host: %q in %s", strings.TrimSpace(text), ms(took))
	return nil
}

// stop ends the guests and then the daemon, which must take it well.
func (d *demo) stop(ctx context.Context) error {
	for i := range d.vms {
		d.vms[i].Stop()
	}
	if d.daemon == nil {
		return nil
	}
	took, err := d.daemon.Stop(ctx, syscall.SIGTERM)
	if err != nil {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	if code := d.daemon.ExitCode(); code != 0 {
		return fmt.Errorf("stop the daemon: it ended with code %d", code)
	}
	d.sayf("daemon", "stopped in %s", ms(took))
	return nil
}

func (d *demo) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "guest\tattached by\taddress\tgateway\tnext\tpage")
	for i := range d.vms {
		v, fetched := &d.vms[i], "-"
		if v.fetch > 0 {
			fetched = ms(v.fetch)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.options.Name, v.how, v.lease.IP, ms(v.gateway), ms(v.peer), fetched)
	}
	_ = w.Flush() // to a string
	fmt.Fprintf(&b, "Times: a ping to the gateway and to the next guest, a page from the host.\n\nNow start your own: %s try\n",
		filepath.Join(d.bin, "socket_vmnet2"))
	return b.String()
}

func ms(d time.Duration) string {
	if d >= 100*time.Millisecond {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
