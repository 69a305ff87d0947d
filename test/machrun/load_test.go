// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// probe builds the tests' program for macOS.
func probe(t *testing.T) string {
	t.Helper()
	return buildDarwin(t, "./testdata/probe")
}

// run returns what a program prints, and its exit status.
func run(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// A machO is a file of a program, to be changed.
type machO []byte

func (m machO) put32(at int, v uint32) { binary.LittleEndian.PutUint32(m[at:], v) }
