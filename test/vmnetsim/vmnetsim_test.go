// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	more, err := filepath.Glob("ctest/*.[ch]")
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
	assert.Greater(t, bytes.Count(out, []byte("ok ")), 50, "%s", out)
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

// TestLeakCheck shows that the check at the end of TestRulesAndSwitches finds leaks.
func TestLeakCheck(t *testing.T) {
	t.Parallel()
	out, err := cbuild.Command(t.Context(), addresses(t), "leak").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "detected memory leaks")
}

// symbols are the functions and variables that a library exports.
func symbols(t *testing.T, lib string) (names []string) {
	t.Helper()
	f, err := elf.Open(lib)
	require.NoError(t, err)
	defer f.Close()
	all, err := f.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestFlavours(t *testing.T) {
	t.Parallel()
	header, err := os.ReadFile("csrc/abi.h")
	require.NoError(t, err)
	var functions []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(\w+)\(.*(?:;|,)`).FindAllSubmatch(header, -1) {
		functions = append(functions, string(m[1]))
	}
	require.Greater(t, len(functions), 60)
	isNetwork := func(s string) bool {
		return strings.HasPrefix(s, "vmnet_network_") && !strings.HasSuffix(s, "_key") || s == "vmnet_interface_start_with_network"
	}
	is15 := func(s string) bool {
		return slices.Contains([]string{"vmnet_read_max_packets_key", "vmnet_write_max_packets_key", "vmnet_enable_virtio_header_key"}, s)
	}
	full := symbols(t, Library(t, Full))
	assert.Subset(t, full, functions, "declared in abi.h")
	assert.Contains(t, full, "vmnet_network_identifier_key")
	for _, s := range full {
		assert.Regexp(t, `^(vmnet_|xpc_|_xpc_type_|dispatch_|CF|_Block_|_NSConcrete|sendmsg_x$|recvmsg_x$|launch_activate_socket$|vmnetsim_)`, s)
	}
	no26 := symbols(t, Library(t, NoMacOS26))
	assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(full), isNetwork), no26)
	assert.Len(t, no26, len(full)-16)
	no15 := symbols(t, Library(t, NoMacOS15))
	assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(no26), is15), no15)
	assert.Len(t, no15, len(no26)-3)
}

// TestEveryCallIsCounted compares the table with the functions that are exported.
func TestEveryCallIsCounted(t *testing.T) {
	t.Parallel()
	lines, err := tables()
	require.NoError(t, err)
	var counted, exported []string
	for _, l := range lines {
		if l.macro == "CALL" {
			counted = append(counted, l.name)
		}
	}
	f, err := elf.Open(Library(t, Full))
	require.NoError(t, err)
	defer f.Close()
	all, err := f.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC && !strings.HasPrefix(s.Name, "vmnetsim_") {
			exported = append(exported, s.Name)
		}
	}
	assert.ElementsMatch(t, counted, exported)
}

func TestBuildTogether(t *testing.T) {
	t.Parallel()
	Library(t, Full) // skips without gcc
	var wg sync.WaitGroup
	paths := make([]string, 4)
	errs := make([]error, len(paths))
	for i := range paths {
		wg.Go(func() { paths[i], errs[i] = Build(t.Context(), Full) })
	}
	wg.Wait()
	for i := range paths {
		require.NoError(t, errs[i])
		assert.Equal(t, paths[0], paths[i])
		assert.FileExists(t, filepath.Join(filepath.Dir(paths[i]), "abi.h"))
	}
}

func TestBuildReportsErrors(t *testing.T) {
	t.Parallel()
	Library(t, Full) // skips without gcc
	_, err := compile(t.Context(), "bad", []string{"-fno-such-option"}, nil)
	require.ErrorContains(t, err, "-fno-such-option")
	_, err = compile(t.Context(), "bad", nil, []string{"none.c"})
	require.ErrorIs(t, err, os.ErrNotExist)
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

// runFails wants a tool to fail with a message.
func runFails(t *testing.T, name, dir, message string) {
	t.Helper()
	out, err := cbuild.Command(t.Context(), addresses(t), name, dir).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), message)
}
