// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
)

// The network of every daemon in these tests.
const (
	gateway = labtest.Gateway
	alias   = labtest.Alias
)

// Programs under test, built by TestMain from the tree as it is.
var (
	programs  *labtest.Programs
	tools     lab.Tools
	daemonOld string
	daemonNew string
	daemonSim string
	client    string
	helper    string
)

// Short names for what most lines of these tests use.
var (
	within  = labtest.Within
	boot    = labtest.Boot
	run     = labtest.Run
	page    = labtest.Page
	mustMAC = labtest.MAC
	each    = labtest.Each
	dhcp    = labtest.DHCP
	ping    = labtest.Ping

	newLab      func(t *testing.T) *lab.Lab
	startDaemon func(t *testing.T, l *lab.Lab, program, socket string, args ...string) *lab.Daemon
)

func TestMain(m *testing.M) {
	var err error
	if programs, err = labtest.Build(); err != nil {
		fmt.Fprintf(os.Stderr, "prepare end-to-end tests: %v\n", err)
		os.Exit(1)
	}
	tools, daemonOld, daemonNew, daemonSim = programs.Tools, programs.Old, programs.New, programs.Sim
	client, helper = programs.Client, programs.Helper
	newLab, startDaemon = programs.NewLab, programs.StartDaemon
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		programs.Remove()
		os.Exit(code)
	}))
}
