// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExecRefusesThePollersNumber: one of the first numbers behind the eight that package lowfd keeps, where no thread can have
// descriptors of its own. It would work four times in five.
func TestExecRefusesThePollersNumber(t *testing.T) {
	p, refused := startOpen(t), 0
	for fd := 11; fd <= 13; fd++ { // the first, unless a file was open for a moment when the poller was made
		code, _, stderr := outcome(t, execCmd(t, fmt.Sprintf("--fd=%d", fd), p.sock, "--", "true"))
		if code != 0 {
			require.Equal(t, 1, code, stderr)
			require.Contains(t, stderr, "choose another one, such as --fd=3")
			refused++
		}
	}
	require.Equal(t, runtime.GOOS != "linux", refused > 0)
}

// TestExecLeavesTheRuntimeAlone: whatever number the link or the lifeline gets, it is never that of the Go runtime's poller,
// whose threads run on until exec. A program that overwrites it ends with "netpoll failed", one time in five.
func TestExecLeavesTheRuntimeAlone(t *testing.T) {
	p := startOpen(t)
	for _, c := range []struct {
		name  string
		debug string // GODEBUG: which files the runtime has open decides where its poller is
	}{
		{"as it is", ""},
		{"no files of the control group", "containermaxprocs=0,updatemaxprocs=0"},
	} {
		for fd := 3; fd <= 6; fd++ {
			t.Run(fmt.Sprintf("%s, descriptor %d", c.name, fd), func(t *testing.T) {
				for range 5 {
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
