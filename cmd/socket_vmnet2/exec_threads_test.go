// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExecLeavesTheRuntimeAlone: whatever number the link or the lifeline gets, it is never that of the Go runtime's poller,
// whose threads run on until exec. A program that overwrites it ends with "netpoll failed", one time in five.
func TestExecLeavesTheRuntimeAlone(t *testing.T) {
	p := startPassing(t)
	for _, c := range []struct {
		name  string
		debug string // GODEBUG: which files the runtime has open decides where its poller is
	}{
		{"as it is", ""},
		{"no files of the control group", "containermaxprocs=0,updatemaxprocs=0"},
	} {
		for fd := 3; fd <= 6; fd++ {
			t.Run(fmt.Sprintf("%s, descriptor %d", c.name, fd), func(t *testing.T) {
				for range 10 {
					cmd := execCmd(t, fmt.Sprintf("--fd=%d", fd), p.sock, "--", "true")
					if c.debug != "" {
						cmd.Env = append(cmd.Env, "GODEBUG="+c.debug)
					}
					code, _, stderr := outcome(t, cmd)
					require.Zero(t, code, stderr)
				}
			})
		}
	}
}
