// SPDX-License-Identifier: Apache-2.0

// Package labtest is what tests with a lab have in common: the programs under test, built from the tree as it is, and
// steps that end the test when they fail.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The network of every daemon in these tests.
const (
	Gateway = "192.168.105.1"
	Alias   = "192.168.105.254" // the host, for guests
)

// Programs are those under test.
type Programs struct {
	Tools     lab.Tools
	Old       string // socket_vmnet: the old program's options
	New       string // socket_vmnet2
	Sim       string // socket_vmnet2 that can load the vmnet simulator
	Simulator string // the simulator's library
	Client    string // socket_vmnet_client
	Helper    string // vmnet-helper
	Faulty    string // socket_vmnet2 with the points of package faults

	dir      string
	notReady error // why no test can run
}

// Build finds the tools and builds the programs. Where the set-up has not been done, NewLab skips every test, and with
// CI=true Build fails. The caller must Remove the programs.
func Build() (*Programs, error) {
	dir, err := os.MkdirTemp("", "e2e-bin-")
	if err != nil {
		return nil, fmt.Errorf("build the programs under test: %w", err)
	}
	p := &Programs{dir: dir}
	err = p.build()
	if errors.Is(err, lab.ErrMissing) && os.Getenv("CI") != "true" {
		p.notReady, err = err, nil
	}
	if err != nil {
		p.Remove()
		return nil, err
	}
	return p, nil
}

func (p *Programs) build() (err error) {
	lab.DropInherited() // for what tests start without a lab
	if p.Tools, err = lab.FindTools(true); err != nil {
		return err
	}
	path := func(name ...string) string { return filepath.Join(p.dir, filepath.Join(name...)) }
	p.Tools.Helper = path("guest")
	p.Old, p.New = path("socket_vmnet"), path("socket_vmnet2")
	p.Client, p.Helper = path("socket_vmnet_client"), path("vmnet-helper")
	p.Faulty, p.Sim = path("faults", "socket_vmnet2"), path("vmnetsim", "socket_vmnet2")
	ctx := context.Background()
	if p.Simulator, err = vmnetsim.Build(ctx, vmnetsim.Full); err != nil {
		return err
	}
	return errors.Join(
		lab.BuildHelper(ctx, p.Tools.Helper),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", p.Old),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", p.New),
		lab.BuildGo(ctx, "./cmd/socket_vmnet_client", p.Client),
		lab.BuildGo(ctx, "./cmd/vmnet-helper", p.Helper),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", p.Faulty, "-tags", "faults"),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", p.Sim, "-tags", "vmnetsim"),
	)
}

// Remove removes the programs.
func (p *Programs) Remove() { os.RemoveAll(p.dir) }

// NewLab makes a lab that ends with the test.
func (p *Programs) NewLab(t *testing.T) *lab.Lab {
	t.Helper()
	if p.notReady != nil {
		t.Skipf("%v (with CI=true this fails)", p.notReady)
	}
	start := time.Now()
	l, err := lab.New(t.Context(), lab.Options{Tools: p.Tools, Progress: func(who, what string) {
		t.Logf("%6.1f s  %s %s", time.Since(start).Seconds(), who, what)
	}})
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	return l
}

// StartDaemon starts program with the options args on socket. What it logged is shown when the test has failed.
func (p *Programs) StartDaemon(t *testing.T, l *lab.Lab, program, socket string, args ...string) *lab.Daemon {
	t.Helper()
	args = append([]string{"--vmnet-gateway=" + Gateway}, args...)
	if program != p.Old {
		args = append(args, "--state-dir="+l.Path("state"))
	}
	if program == p.Sim {
		args = append(args, "--backend=vmnet", "--vmnetsim-lib="+p.Simulator, "--vmnetsim-dir="+l.Path("vmnetsim"))
	}
	d, err := l.StartDaemon(t.Context(), program, append(args, socket))
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of daemon %d %q:\n%s", d.Pid(), args, d.Output().Tail(25))
		}
	})
	return d
}

// Boot boots guests at the same time.
func Boot(t *testing.T, l *lab.Lab, options ...lab.GuestOptions) []*lab.Guest {
	t.Helper()
	guests := make([]*lab.Guest, len(options))
	check(t, lab.Together(len(options), func(i int) (err error) {
		guests[i], err = l.Boot(t.Context(), options[i])
		return err
	}))
	return guests
}

// Each calls f for guests at the same time and wants no error.
func Each(t *testing.T, guests []*lab.Guest, f func(i int, g *lab.Guest) error) {
	t.Helper()
	check(t, lab.Together(len(guests), func(i int) error { return f(i, guests[i]) }))
}

// DHCP gets a lease for a guest within a minute.
func DHCP(t *testing.T, g *lab.Guest) lab.Lease {
	t.Helper()
	lease, err := g.DHCP(Within(t, time.Minute))
	check(t, err)
	return lease
}

// Ping has a guest ping an address, with all answers within a minute.
func Ping(t *testing.T, g *lab.Guest, address string) time.Duration {
	t.Helper()
	mean, err := g.Ping(Within(t, time.Minute), address)
	check(t, err)
	return mean
}

// Page serves a page of the host on address until the test ends.
func Page(t *testing.T, address string) *lab.Page {
	t.Helper()
	p, err := lab.ServePage(t.Context(), address)
	check(t, err)
	t.Cleanup(p.Close)
	return p
}

// Within is a context of the test that ends after d.
func Within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Run runs a command in a guest that must end with code 0 within a minute.
func Run(t *testing.T, g *lab.Guest, command string) lab.Result {
	t.Helper()
	r, err := g.Must(Within(t, time.Minute), command)
	check(t, err)
	return r
}

// MAC is the address that s writes.
func MAC(t *testing.T, s string) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(s)
	check(t, err)
	return mac
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
