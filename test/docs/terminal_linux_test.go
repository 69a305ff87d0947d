// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is how long a shell may take for an answer, on a machine that has much else to do.
const patience = 30 * time.Second

// A terminal is a shell that believes that a person types.
type terminal struct {
	*testing.T
	master *os.File
	output string // what has not been waited for yet
}

// startShell starts one in a new directory with the file "sock". It is nil where there are no terminals.
func startShell(t *testing.T, argv ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Logf("there are no terminals here, so TestCompletion has to do: %v", err)
		return nil
	}
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Logf("there are no terminals here, so TestCompletion has to do: %v", err)
		return nil
	}
	defer func() { _ = slave.Close() }()
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 100, Col: 200}))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sock"), nil, 0o600))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "LC_ALL=C.UTF-8"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &terminal{T: t, master: master}
}

// say types a line and returns what comes up to and with the text that is waited for.
func (s *terminal) say(line, until string) string {
	s.Helper()
	_, err := s.master.WriteString(line + "\n")
	require.NoError(s, err)
	return s.wait(until)
}

// wait reads until the text has come.
func (s *terminal) wait(until string) string {
	s.Helper()
	deadline := time.Now().Add(patience)
	buf := make([]byte, 4096)
	for !strings.Contains(s.output, until) {
		fds := []unix.PollFd{{Fd: int32(s.master.Fd()), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds, 100); n <= 0 && time.Now().Before(deadline) {
			continue
		}
		require.True(s, time.Now().Before(deadline), "no %q in %v: %q", until, patience, s.output)
		n, err := unix.Read(int(s.master.Fd()), buf)
		require.NoError(s, err, "%q", s.output)
		s.output += string(buf[:n])
	}
	end := strings.Index(s.output, until) + len(until)
	got := s.output[:end]
	s.output = s.output[end:]
	return got
}

// standIns are in the place of the programs: they print the words they are called with. The prompt is not in what is typed.
const standIns = `socket_vmnet2() { printf '<%s>' "$@"; printf '<end>\n'; }; socket_vmnet() { socket_vmnet2 "$@"; }; socket_vmnet_client() { socket_vmnet2 "$@"; }; ` +
	`PS1='rea''dy> '`

// TestTypedCompletion: in shells that believe to have a terminal, with the tab key.
func TestTypedCompletion(t *testing.T) {
	for _, c := range []struct {
		name  string
		argv  []string
		setUp []string
	}{
		{"bash alone", []string{"bash", "--noprofile", "--norc", "-i"}, []string{". " + file(t, root, "etc/completions/socket_vmnet2.bash")}},
		{"bash with bash-completion", []string{"bash", "--noprofile", "--norc", "-i"}, []string{
			". /usr/share/bash-completion/bash_completion", ". " + file(t, root, "etc/completions/socket_vmnet2.bash"),
		}},
		{"zsh", []string{"zsh", "-f", "-i"}, []string{
			"fpath=(" + file(t, root, "etc/completions") + " $fpath)", "unsetopt prompt_sp prompt_cr", "autoload -Uz compinit", "compinit -u -D",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			needTool(t, c.argv[0])
			if strings.Contains(c.name, "bash-completion") {
				if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
					missing(t, "bash-completion")
				}
			}
			s := startShell(t, c.argv...)
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
