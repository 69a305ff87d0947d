// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// patience is how long a shell may take for an answer, on a machine that has much else to do.
const patience = 30 * time.Second

// A terminal is a shell that believes that a person types, by script(1).
type terminal struct {
	*testing.T
	in   io.Writer
	out  vnettest.Log
	read int // of the output, as far as it was waited for
}

// startShell starts one in a new directory with the file "sock". It is nil where there are no terminals.
func startShell(t *testing.T, shell string) *terminal {
	t.Helper()
	needTool(t, "script")
	if out, err := exec.Command("script", "-qec", "true", "/dev/null").CombinedOutput(); err != nil {
		t.Logf("there are no terminals here, so TestCompletion has to do: %v: %s", err, out)
		return nil
	}
	s := &terminal{T: t}
	cmd := exec.Command("script", "-qfec", "stty cols 200 rows 100 && exec "+shell, "/dev/null")
	cmd.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "sock"), nil, 0o600))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "TERM=dumb", "LC_ALL=C.UTF-8", "SHELL=/bin/sh"}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &s.out, &s.out, patience
	var err error
	s.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s
}

// say types a line and returns what comes up to and with the text that is waited for.
func (s *terminal) say(line, until string) string {
	s.Helper()
	_, err := io.WriteString(s.in, line+"\n")
	require.NoError(s, err)
	return s.wait(until)
}

// wait reads until the text has come.
func (s *terminal) wait(until string) string {
	s.Helper()
	at := func() int { return strings.Index(s.out.String()[s.read:], until) }
	require.Eventually(s, func() bool { return at() >= 0 }, patience, 5*time.Millisecond, "no %q: %s", until, &s.out)
	from := s.read
	s.read += at() + len(until)
	return s.out.String()[from:s.read]
}

// standIns are in the place of the programs: they print the words they are called with. The prompt is not in what is typed.
const standIns = `socket_vmnet2() { printf '<%s>' "$@"; printf '<end>\n'; }; socket_vmnet() { socket_vmnet2 "$@"; }; socket_vmnet_client() { socket_vmnet2 "$@"; }; ` +
	`PS1='rea''dy> '`

// TestTypedCompletion: in shells that believe to have a terminal, with the tab key.
func TestTypedCompletion(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell string
		setUp []string
	}{
		{"bash alone", "bash --noprofile --norc -i", []string{". " + file(t, root, "etc/completions/socket_vmnet2.bash")}},
		{"bash with bash-completion", "bash --noprofile --norc -i", []string{
			". /usr/share/bash-completion/bash_completion", ". " + file(t, root, "etc/completions/socket_vmnet2.bash"),
		}},
		{"zsh", "zsh -f -i", []string{
			"fpath=(" + file(t, root, "etc/completions") + " $fpath)", "unsetopt prompt_sp prompt_cr", "autoload -Uz compinit", "compinit -u -D",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			needTool(t, strings.Fields(c.shell)[0])
			if strings.Contains(c.name, "bash-completion") {
				if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
					missing(t, "bash-completion")
				}
			}
			s := startShell(t, c.shell)
			if s == nil {
				return
			}
			s.say(standIns, "ready> ")
			for _, line := range c.setUp {
				s.say(line, "ready> ")
			}
			for _, k := range []struct{ typed, want string }{
				{"socket_vmnet2 upg\ts\t", "<upgrade><sock><end>"},
				{"socket_vmnet2 --vmnet-mo\tsh\tsoc\t", "<--vmnet-mode=shared><sock><end>"},
				{"socket_vmnet2 --vmnet-mode br\tx", "<--vmnet-mode><bridged><x><end>"},
				{"socket_vmnet2 --vmnet-mode=host --back\tu\tx", "<--vmnet-mode=host><--backend=usernet><x><end>"},
				{"socket_vmnet2 --pidfile=so\tx", "<--pidfile=sock><x><end>"},
				{"socket_vmnet2 selftest --qu\tx", "<selftest><--quick><x><end>"},
				{"socket_vmnet2 exec --dg\tso\t-- basena\tx", "<exec><--dgram><sock><--><basename><x><end>"},
				{"socket_vmnet --vmnet-mode=ho\tso\t", "<--vmnet-mode=host><sock><end>"},
				{"socket_vmnet upg\t", "<upg><end>"},
				{"socket_vmnet --back\tx", "<--backx><end>"},
				{"socket_vmnet_client so\tbasena\tx", "<sock><basename><x><end>"},
			} {
				got := s.say(k.typed, "<end>")
				assert.Contains(t, got, k.want, "%q", k.typed)
				s.wait("ready> ")
			}
		})
	}
}
