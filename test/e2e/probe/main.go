// SPDX-License-Identifier: Apache-2.0

// Command probe tries a daemon that is running already, whatever its back end and operating system, with real virtual
// machines: an iPXE image, which gets an address as in socket_vmnet's own test, then two Linux guests, which get addresses
// and reach each other and the gateway. QEMU must be in PATH.
//
// The guests' files are those that test/e2e/setup.sh puts into its cache on Linux; on another system copy the directory and
// name it with E2E_CACHE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// wholeTime bounds a run, which takes about 15 s on an idle machine.
const wholeTime = 5 * time.Minute

// A probe is what to try.
type probe struct {
	socket, client, gateway, ipxe string

	start time.Time
	lab   *lab.Lab
}

func main() {
	var p probe
	flag.StringVar(&p.socket, "socket", "/var/run/socket_vmnet", "the daemon's `socket`")
	flag.StringVar(&p.client, "client", "/opt/socket_vmnet/bin/socket_vmnet_client", "the `program` that puts the socket on fd 3")
	flag.StringVar(&p.gateway, "gateway", "192.168.105.1", "the `address` of the network's gateway")
	flag.StringVar(&p.ipxe, "ipxe", "/usr/lib/ipxe/ipxe.lkrn", "the iPXE `image`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, wholeTime)
	defer cancel()
	if err := p.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "probe: FAILED: %v\n", err)
		os.Exit(1)
	}
	p.say("probe", "passed")
}

func (p *probe) say(who, what string) {
	fmt.Printf("%6.1f s  %-8s %s\n", time.Since(p.start).Seconds(), who, what)
}

// run makes the lab and tries everything in it.
func (p *probe) run(ctx context.Context) (err error) {
	p.start = time.Now()
	tools, err := lab.FindTools(false)
	if err != nil {
		return err
	}
	if tools.IPXE = p.ipxe; p.ipxe != "" {
		if _, err := os.Stat(p.ipxe); err != nil {
			return fmt.Errorf("find the iPXE image: %w; name one with -ipxe", err)
		}
	}
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tools.Helper = filepath.Join(dir, "guest")
	if err := buildHelper(ctx, tools.Helper); err != nil {
		return err
	}
	if p.lab, err = lab.New(ctx, lab.Options{Tools: tools, Progress: p.say}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.lab.Close()) }()
	if err := p.tryIPXE(ctx); err != nil {
		return err
	}
	return p.tryGuests(ctx)
}

// buildHelper builds what runs in the guests, which are x86-64 machines with Linux wherever this program runs.
func buildHelper(ctx context.Context, out string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, "./test/lab/guest")
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guests' program: %w: %s; run this at the root of the sources", err, text)
	}
	return nil
}

var ipxeLease = regexp.MustCompile(`net0\.dhcp/ip:ipv4 = ([0-9.]+)`)

// tryIPXE has an iPXE image get an address.
func (p *probe) tryIPXE(ctx context.Context) error {
	const mac = "52:54:00:12:34:56"
	out, err := p.lab.RunIPXE(ctx, lab.IPXEOptions{
		Name: "ipxe", MAC: mac, Client: p.client, Socket: p.socket,
		Script: "ifconf -c dhcp net0\nshow net0/mac\nshow net0.dhcp/ip\nshow net0.dhcp/gateway\nsleep 1\nreboot\n",
	})
	if err != nil {
		return err
	}
	lease := ipxeLease.FindStringSubmatch(out)
	if lease == nil {
		return fmt.Errorf("iPXE got no address by DHCP; it printed:\n%s", out)
	}
	for _, want := range []string{`net0/mac:hex = ` + mac, `net0\.dhcp/gateway:ipv4 = ` + regexp.QuoteMeta(p.gateway) + `\b`} {
		if !regexp.MustCompile(want).MatchString(out) {
			return fmt.Errorf("iPXE did not print %q but:\n%s", want, out)
		}
	}
	p.say("ipxe", "has "+lease[1]+" by DHCP, gateway "+p.gateway)
	return nil
}

// tryGuests boots two guests, which come in both ways that QEMU has, and has them talk.
func (p *probe) tryGuests(ctx context.Context) error {
	var guests []*lab.Guest
	var addresses []string
	for _, o := range []lab.GuestOptions{
		{Name: "first", MAC: "52:54:00:00:00:11", Netdev: lab.StreamNetdev(p.socket, 0)},
		{Name: "second", MAC: "52:54:00:00:00:12", Netdev: lab.FD3Netdev, Wrap: []string{p.client, p.socket}},
	} {
		g, err := p.lab.Boot(ctx, o)
		if err != nil {
			return err
		}
		lease, err := g.DHCP(ctx)
		if err != nil {
			return err
		}
		p.say(g.Name, "has "+lease.IP+" by DHCP, gateway "+lease.Router)
		if lease.Router != p.gateway {
			return fmt.Errorf("%s was given the gateway %s, want %s", g.Name, lease.Router, p.gateway)
		}
		guests, addresses = append(guests, g), append(addresses, lease.IP)
	}
	if addresses[0] == addresses[1] {
		return fmt.Errorf("both guests have %s", addresses[0])
	}
	for i, g := range guests {
		for _, to := range []string{p.gateway, addresses[1-i]} {
			took, err := g.Ping(ctx, to)
			if err != nil {
				return err
			}
			p.say(g.Name, fmt.Sprintf("reaches %s in %v", to, took.Round(10*time.Microsecond)))
		}
	}
	return p.transfer(ctx, guests, addresses)
}

// transfer sends from the first guest to the second for some seconds.
func (p *probe) transfer(ctx context.Context, guests []*lab.Guest, addresses []string) error {
	if err := guests[1].ServeSink(ctx); err != nil {
		return err
	}
	mbit, err := guests[0].Throughput(ctx, addresses[1], 5*time.Second)
	if err != nil {
		return err
	}
	p.say(guests[0].Name, fmt.Sprintf("sends %.0f Mbit/s to %s", mbit, addresses[1]))
	return nil
}
