// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// The network of every daemon in these tests.
const (
	gateway = "192.168.105.1"
	alias   = "192.168.105.254" // the host, for guests
)

// Programs under test, built by TestMain from the tree as it is.
var (
	tools     lab.Tools
	daemonOld string // socket_vmnet: the old program's options
	daemonNew string // socket_vmnet2
	daemonSim string // socket_vmnet2 that can load the vmnet simulator
	simulator string // the simulator's library
	client    string // socket_vmnet_client
	helper    string // vmnet-helper
	undrained string // socket_vmnet2 that closes its clients without reading on
	notReady  error  // why no test can run
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "e2e-bin-")
	if err == nil {
		err = prepare(dir)
	}
	switch {
	case errors.Is(err, lab.ErrMissing) && os.Getenv("CI") != "true":
		notReady = err // every test is skipped with this reason
	case err != nil:
		fmt.Fprintf(os.Stderr, "prepare end-to-end tests: %v\n", err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

func prepare(dir string) (err error) {
	if tools, err = lab.FindTools(true); err != nil {
		return err
	}
	tools.Helper = filepath.Join(dir, "guest")
	daemonOld, daemonNew = filepath.Join(dir, "socket_vmnet"), filepath.Join(dir, "socket_vmnet2")
	client = filepath.Join(dir, "socket_vmnet_client")
	helper = filepath.Join(dir, "vmnet-helper")
	undrained = filepath.Join(dir, "nodrain", "socket_vmnet2")
	daemonSim = filepath.Join(dir, "vmnetsim", "socket_vmnet2")
	ctx := context.Background()
	if simulator, err = vmnetsim.Build(ctx, vmnetsim.Full); err != nil {
		return err
	}
	return errors.Join(
		lab.BuildHelper(ctx, tools.Helper),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", daemonOld),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", daemonNew),
		lab.BuildGo(ctx, "./cmd/socket_vmnet_client", client),
		lab.BuildGo(ctx, "./cmd/vmnet-helper", helper),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", undrained, "-tags", "nodrain"),
		lab.BuildGo(ctx, "./cmd/socket_vmnet2", daemonSim, "-tags", "vmnetsim"),
	)
}

// newLab makes a lab that ends with the test.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	if notReady != nil {
		t.Skipf("%v (with CI=true this fails)", notReady)
	}
	start := time.Now()
	l, err := lab.New(t.Context(), lab.Options{Tools: tools, Progress: func(who, what string) {
		t.Logf("%6.1f s  %s %s", time.Since(start).Seconds(), who, what)
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// startDaemon starts program with the options args on socket. What it logged is shown when the test has failed.
func startDaemon(t *testing.T, l *lab.Lab, program, socket string, args ...string) *lab.Daemon {
	t.Helper()
	args = append([]string{"--vmnet-gateway=" + gateway}, args...)
	if program != daemonOld {
		args = append(args, "--state-dir="+l.Path("state"))
	}
	if program == daemonSim {
		args = append(args, "--backend=vmnet", "--vmnetsim-lib="+simulator, "--vmnetsim-dir="+l.Path("vmnetsim"))
	}
	d, err := l.StartDaemon(t.Context(), program, append(args, socket))
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of daemon %d %q:\n%s", d.Pid(), args, d.Output().Tail(25))
		}
	})
	return d
}

// boot boots guests at the same time.
func boot(t *testing.T, l *lab.Lab, options ...lab.GuestOptions) []*lab.Guest {
	t.Helper()
	guests, errs := make([]*lab.Guest, len(options)), make([]error, len(options))
	var wg sync.WaitGroup
	for i, o := range options {
		wg.Go(func() { guests[i], errs[i] = l.Boot(t.Context(), o) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return guests
}

// page serves a page of the host on address until the test ends.
func page(t *testing.T, address string) *lab.Page {
	t.Helper()
	p, err := lab.ServePage(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// within is a context of the test that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// run runs a command in a guest that must end with code 0 within a minute.
func run(t *testing.T, g *lab.Guest, command string) lab.Result {
	t.Helper()
	r, err := g.Must(within(t, time.Minute), command)
	require.NoError(t, err)
	return r
}
