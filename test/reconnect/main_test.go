// SPDX-License-Identifier: Apache-2.0

//go:build linux

package reconnect

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/labtest"
)

var (
	long = flag.Bool("long", false, "the long version, about 12 minutes")
	out  = flag.String("out", "", "directory for reconnect.json, with -long")
)

var (
	programs *labtest.Programs
	tools    lab.Tools
)

// Short names for what most lines of these tests use.
var (
	within = labtest.Within
	boot   = labtest.Boot
)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if programs, err = labtest.Build(); err != nil {
		fmt.Fprintf(os.Stderr, "prepare reconnect tests: %v\n", err)
		os.Exit(1)
	}
	tools = programs.Tools
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		programs.Remove()
		if err := results.write(*out); err != nil {
			fmt.Fprintf(os.Stderr, "write results: %v\n", err)
			code = 1
		}
		os.Exit(code)
	}))
}

// times is short in the short version and much in the long one.
func times(short, much int) int {
	if *long {
		return much
	}
	return short
}
