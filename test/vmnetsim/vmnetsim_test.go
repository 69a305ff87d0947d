// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every run of a C program.
const patience = 5 * time.Minute

// cases builds the C tests, with the simulator in the same program so that a sanitizer sees both.
func cases(t *testing.T, flags ...string) string {
	t.Helper()
	Library(t, Full) // skips without gcc
	more, err := cbuild.CTests()
	require.NoError(t, err)
	require.NotEmpty(t, more)
	p, err := compile(t.Context(), "ctest", append([]string{"-O1"}, flags...), more)
	require.NoError(t, err)
	return p
}

// addresses are the sanitizers of memory and of what C leaves undefined, with a leak check at the end.
func addresses(t *testing.T) string {
	return cases(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
}

func runCases(t *testing.T, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := cbuild.Command(ctx, program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Greater(t, bytes.Count(out, []byte("ok ")), 25, "%s", out)
}

// TestRulesAndSwitches runs each C case: deliberately wrong callers are refused, each switch shows, and in the end
// nothing is left.
func TestRulesAndSwitches(t *testing.T) {
	t.Parallel()
	runCases(t, addresses(t))
}

func TestThreads(t *testing.T) {
	t.Parallel()
	runCases(t, cases(t, "-fsanitize=thread"))
}

// TestOldLimits runs the cases without the newer parts, where a call takes 200 packets.
func TestOldLimits(t *testing.T) {
	t.Parallel()
	runCases(t, cases(t, "-O0", "-DNO_MACOS15"))
}

// TestAborts runs what macOS would crash for, one process each.
func TestAborts(t *testing.T) {
	t.Parallel()
	program := addresses(t)
	list, err := cbuild.Command(t.Context(), program, "-l").Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(list)), "\n")
	require.Greater(t, len(lines), 10)
	for _, l := range lines {
		name, message, _ := strings.Cut(l, "\t")
		t.Run(name, func(t *testing.T) {
			out, err := cbuild.Command(t.Context(), program, name).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			assert.Contains(t, string(out), "vmnetsim: ")
			assert.Contains(t, string(out), message)
			assert.NotContains(t, string(out), "Sanitizer")
		})
	}
}

// A tool is a C test program that works on a control file until its input ends.
type tool struct {
	cmd   *exec.Cmd
	input *os.File
}

func startTool(t *testing.T, name, dir string) *tool {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := cbuild.Command(t.Context(), addresses(t), name, dir)
	cmd.Stdin = r
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, r.Close())
	b := make([]byte, 64)
	n, err := out.Read(b)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(b[:n]))
	tl := &tool{cmd, w}
	t.Cleanup(tl.kill)
	return tl
}

// end lets the tool finish, which it does without an error.
func (tl *tool) end(t *testing.T) {
	t.Helper()
	require.NoError(t, tl.input.Close())
	require.NoError(t, tl.cmd.Wait())
}

func (tl *tool) kill() {
	_ = tl.cmd.Process.Signal(syscall.SIGKILL) // first: at the end of its input the tool would end in order
	_ = tl.input.Close()
	_ = tl.cmd.Wait()
}

// runTool returns what a tool prints.
func runTool(t *testing.T, name, dir string) string {
	t.Helper()
	out, err := cbuild.Command(t.Context(), addresses(t), name, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}
