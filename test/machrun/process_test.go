// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

// TestPrograms runs the program with each word, by the loader as it is and by one with sanitizers, which finds leaks and
// signals of its own to be none of its business.
func TestPrograms(t *testing.T) {
	t.Parallel()
	sanitized, err := Build(t.Context(), cbuild.Sanitizers...)
	cbuild.Must(t, sanitized, err)
	good := buildDarwin(t, "./testdata/probe")
	b, err := os.ReadFile(good)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "arm64")
	binary.LittleEndian.PutUint32(b[4:], 0x0100000c)
	require.NoError(t, os.WriteFile(other, b, 0o700))
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho script $1 $PROBE\n"), 0o700))
	shown := "darwin amd64 argv0=%s args=[\"a\" \"b c\"] executable=" + good + "\nPROBE=%s\n"
	for _, loader := range []string{Program(t), sanitized} {
		for _, c := range []struct {
			args   string
			says   string
			status int
		}{
			{"show|a|b c", fmt.Sprintf(shown, "./probe", "given"), 0},
			{"exec|" + good + "|other name|show|a|b c", fmt.Sprintf(shown, "other name", "executed"), 0},
			{"exec|./probe|x|exec|./probe|y|show|a|b c", fmt.Sprintf(shown, "y", "executed"), 0},
			{"exec|/bin/echo|echo|of Linux", "of Linux\n", 0},
			{"exec|" + script + "|x|one", "script one executed\n", 0},
			{"exec|" + other + "|x", "errno 86\n", 1},
			{"exec|/nonexistent|x", "errno 2\n", 1},
			{"exec|/etc/passwd|x", "errno 13\n", 1},
			{"spawn|./probe|show|a|b c", fmt.Sprintf(shown, "./probe", "given") + "child: exit status 0\n", 0},
			{"spawn|" + script + "|two", "script two given\nchild: exit status 0\n", 0},
			{"spawn|/bin/sh|-c|kill -USR1 $$", "child: signal: user defined signal 1\n", 1},
			{"spawn|" + other, "errno 86\n", 1},
			{"fault", "recovered: runtime error: invalid memory address or nil pointer dereference\n", 0},
			{"threads", "threads ended\n", 0},
			{"preempt", "preempted: 1\n", 0},
			{"forkexec|./probe", "exit status 2\n", 1},
			{"forkexec|/bin/true", "all ran\n", 0},
		} {
			name := filepath.Base(filepath.Dir(loader)) + "/" + c.args
			cmd := cbuild.Command(t.Context(), loader, append([]string{"./probe"}, strings.Split(c.args, "|")...)...)
			cmd.Dir = filepath.Dir(good)
			cmd.Env = append(os.Environ(), "PROBE=given", "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:allow_user_segv_handler=1")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			require.NotNil(t, cmd.ProcessState, err)
			assert.Equal(t, c.status, cmd.ProcessState.ExitCode(), "%s: %s", name, &stderr)
			assert.Contains(t, stdout.String(), c.says, name)
			assert.Empty(t, stderr.String(), name)
		}
	}
}
