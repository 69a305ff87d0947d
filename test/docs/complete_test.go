// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A completionCase is a line up to the cursor and what the shells are to offer.
type completionCase struct {
	line string
	want []string
}

// runs is a program in that directory that answers as socket_vmnet2 does where a daemon with two clients runs.
const runs = `#!/bin/sh
case "$1 $2" in
"clients --names") printf 'vm1\nvm2\n17\n' ;;
"status --sockets") printf '/run/a\n/run/b\n' ;;
*) echo unexpected "$@" >&2 ;;
esac
`

// completionCases are for a directory with the file "sock" and the directory "state".
func completionCases(t *testing.T) []completionCase {
	names := commandNames(t)
	cases := []completionCase{
		{"socket_vmnet2 up", []string{"upgrade"}},
		{"socket_vmnet2 ", names},
		{"socket_vmnet2 so", []string{"sock"}},
		{"socket_vmnet2 -", optionWords(t, "socket_vmnet2")},
		{"socket_vmnet2 --vmnet-mo", []string{"--vmnet-mode="}},
		{"socket_vmnet2 --vmnet-mode=", []string{"host", "shared", "bridged"}},
		{"socket_vmnet2 --vmnet-mode ", []string{"host", "shared", "bridged"}},
		{"socket_vmnet2 --vmnet-mode=s", []string{"shared"}},
		{"socket_vmnet2 --vmnet-api n", []string{"network"}},
		{"socket_vmnet2 --host-loopback=o", []string{"off", "on"}},
		{"socket_vmnet2 --runtime-dir=n", []string{"none"}},
		{"socket_vmnet2 --state-dir=", []string{"state"}},
		{"socket_vmnet2 --pidfile so", []string{"sock"}},
		{"socket_vmnet2 -p so", []string{"sock"}},
		{"socket_vmnet2 --vmnet-gateway=1", nil},
		{"socket_vmnet2 --vmnet-forward=tcp:80=192.168.105.5:8", nil},
		{"socket_vmnet2 --socket-user=roo", []string{"root"}},
		{"socket_vmnet2 --isolate --anti", []string{"--anti-spoof"}},
		{"socket_vmnet2 sock --iso", []string{"--isolate"}},
		{"socket_vmnet2 -- --", nil},
		{"socket_vmnet2 help ", names},
		{"socket_vmnet2 upgrade --", []string{"--gateway", "--json", "--help"}},
		{"socket_vmnet2 upgrade --json so", []string{"sock"}},
		{"socket_vmnet2 upgrade --vmnet-mode=", nil},
		{"socket_vmnet2 selftest --q", []string{"--quick"}},
		{"socket_vmnet2 selftest --vmnet-mode=b", []string{"bridged"}},
		{"state/socket_vmnet2 kick vm", []string{"vm1", "vm2"}},
		{"state/socket_vmnet2 kick vm1 ", []string{"vm1", "vm2", "17", "/run/a", "/run/b"}},
		{"state/socket_vmnet2 kick vm1 vm2 /run/a", []string{"/run/a"}},
		{"state/socket_vmnet2 capture --client=1", []string{"17"}},
		{"state/socket_vmnet2 capture --client ", []string{"vm1", "vm2", "17"}},
		{"state/socket_vmnet2 capture -c 1 tcp port 53 /r", []string{"/run/a", "/run/b"}},
		{"state/socket_vmnet2 status ", []string{"/run/a", "/run/b"}},
		{"state/socket_vmnet2 status /run/a /run/b", []string{"/run/b"}},
		{"state/socket_vmnet2 upgrade so", []string{"sock"}},
		{"state/socket_vmnet2 exec /run/b", []string{"/run/b"}},
		{"state/socket_vmnet2 log-level ", []string{"debug", "info", "warn", "error"}},
		{"state/socket_vmnet2 log-level debug /run/b", []string{"/run/b"}},
		{"socket_vmnet2 kick vm", nil}, // nothing is found: no program, no daemon
		{"socket_vmnet2 service ", []string{"install", "uninstall", "start", "stop", "restart", "status"}},
		{"socket_vmnet2 service install --network=", []string{"shared", "host", "bridged"}},
		{"socket_vmnet2 service install -- --vmnet-mo", []string{"--vmnet-mode="}},
		{"socket_vmnet2 service install -- --vmnet-mode=ho", []string{"host"}},
		{"socket_vmnet2 service install -- --vmnet-mode=host so", []string{"sock"}},
		{"socket_vmnet2 install --prefix=s", []string{"state"}},
		{"socket_vmnet2 exec --dg", []string{"--dgram"}},
		{"socket_vmnet2 exec --name upgrade so", []string{"sock"}},
		{"/opt/socket_vmnet/bin/socket_vmnet2 upg", []string{"upgrade"}},
		{"socket_vmnet -", optionWords(t, "socket_vmnet")},
		{"socket_vmnet up", nil},
		{"socket_vmnet so", []string{"sock"}},
		{"socket_vmnet --back", nil},
		{"socket_vmnet --vmnet-mode=h", []string{"host"}},
		{"socket_vmnet_client so", []string{"sock"}},
		{"socket_vmnet_client --", nil},
		{"socket_vmnet2 exec --dgram /s -- basena", []string{"basename"}}, // another command line begins
		{"socket_vmnet_client /s basena", []string{"basename"}},
	}
	if _, err := os.Stat("/sys/class/net/lo"); err == nil {
		cases = append(cases, completionCase{"socket_vmnet2 service install --network host --interface=l", []string{"lo"}})
	}
	for _, name := range names {
		cases = append(cases, completionCase{"socket_vmnet2 " + name + " -", optionWords(t, "socket_vmnet2 "+name)})
	}
	return cases
}

// completeWithout has a shell complete all lines by calling the function, without a terminal.
func completeWithout(t *testing.T, cases []completionCase, argv ...string) [][]string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sock"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state/socket_vmnet2"), []byte(runs), 0o755))
	var lines strings.Builder
	for _, c := range cases {
		lines.WriteString(c.line + "\n")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8"}
	cmd.Stdin = strings.NewReader(lines.String())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	assert.Empty(t, errs.String())
	var answers [][]string
	for answer := range strings.SplitSeq(strings.TrimSuffix(string(out), ".\n"), ".\n") {
		answers = append(answers, words(answer))
	}
	require.Len(t, answers, len(cases))
	return answers
}

// words are the lines of a text without blanks around them, sorted.
func words(text string) []string {
	var all []string
	for w := range strings.SplitSeq(text, "\n") {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// file is the absolute path of one in the tree.
func file(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(parts...))
	require.NoError(t, err)
	return path
}

// TestCompletion: all shells offer what fits and nothing else.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		shell []string
		file  string
		more  []completionCase
	}{
		{[]string{"bash", "--noprofile", "--norc", file(t, "testdata/complete.bash")}, "socket_vmnet2.bash", nil},
		{[]string{"zsh", "-f", file(t, "testdata/complete.zsh")}, "_socket_vmnet2", []completionCase{{"socket_vmnet2 exec /s -- env basena", []string{"normal: env basena at 2"}}}},
		{[]string{"fish", "--no-config", file(t, "testdata/complete.fish")}, "socket_vmnet2.fish", nil},
	} {
		t.Run(c.shell[0], func(t *testing.T) {
			needTool(t, c.shell[0])
			cases := append(completionCases(t), c.more...)
			answers := completeWithout(t, cases, append(c.shell, file(t, root, "etc/completions", c.file))...)
			for i, answer := range answers {
				assert.Equal(t, words(strings.Join(cases[i].want, "\n")), answer, "%q", cases[i].line)
			}
		})
	}
}
