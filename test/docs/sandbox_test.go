// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A sandbox is where the commands of the pages are run: paths of the pages lie below its directory.
type sandbox struct {
	dir    string // with the programs in opt/socket_vmnet
	serial int
	shared *process // the daemon that clients are served by
	socket string   // its socket
}

// ordinary is the user that daemons run as where the test is root's, so that their state is in a home of ours.
const ordinary = 65534

func newSandbox() (*sandbox, error) {
	dir, err := os.MkdirTemp("/tmp", "docs")
	if err != nil {
		return nil, err
	}
	s := &sandbox{dir: dir}
	if err := s.fill(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sandbox) fill() error {
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return err
	}
	for out, pkg := range map[string]string{"bin/socket_vmnet2": "./cmd/socket_vmnet2", "bin/socket_vmnet_client": "./cmd/socket_vmnet_client", "libexec/vmnet-helper": "./cmd/vmnet-helper"} {
		if err := build(s.installed(out), pkg); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(s.installed("bin/socket_vmnet2"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.installed("bin/socket_vmnet"), program, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for dir, names := range map[string][]string{"fakes": fakes(), "actors": slices.Collect(maps.Keys(actors))} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Symlink(self, filepath.Join(s.dir, dir, name)); err != nil {
				return err
			}
		}
	}
	return s.serve()
}

// serve starts the daemon for clients.
func (s *sandbox) serve() error {
	dir, err := s.fresh()
	if err != nil {
		return err
	}
	s.socket = filepath.Join(dir, "s")
	p, err := s.start(dir, s.installed("bin/socket_vmnet2"), "--backend=usernet", "--vmnet-gateway=192.168.105.1", "--socket-mode=0777", s.socket)
	if err != nil {
		return err
	}
	s.shared = p
	return p.untilServes(s.socket)
}

func (s *sandbox) close() {
	if s.shared != nil {
		_ = s.shared.stop()
	}
	_ = os.RemoveAll(s.dir)
}

// installed is a path below the prefix.
func (s *sandbox) installed(path string) string {
	return filepath.Join(s.dir, "opt/socket_vmnet", path)
}

// fresh is a new directory, which daemons may write to.
func (s *sandbox) fresh() (string, error) {
	s.serial++
	dir := filepath.Join(s.dir, strconv.Itoa(s.serial))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if os.Getuid() == 0 {
		return dir, os.Chown(dir, ordinary, ordinary)
	}
	return dir, nil
}

// sockets are the paths at which pages have the daemon that clients use.
var sockets = []string{"/tmp/vmnet.sock", "/private/var/run/lima/socket_vmnet.shared", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet", "/var/run/socket_vmnet"}

// client is a word of a client's command with the paths of this sandbox.
func (s *sandbox) client(word string) string {
	var pairs []string
	for _, path := range sockets {
		pairs = append(pairs, path, s.socket)
	}
	return s.replace(word, pairs...)
}

func (s *sandbox) replace(word string, pairs ...string) string {
	pairs = append(pairs, "/opt/socket_vmnet/", s.installed("")+"/", "/tmp/", s.dir+"/")
	return strings.NewReplacer(pairs...).Replace(word)
}

// environment is that of a command: our programs and the fakes first, a home of its own.
func (s *sandbox) environment(home string) []string {
	return []string{
		"PATH=" + s.installed("bin") + ":" + filepath.Join(s.dir, "fakes") + ":" + os.Getenv("PATH"),
		"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "TMPDIR=" + home,
	}
}

// A process is a daemon that a page starts.
type process struct {
	*exec.Cmd
	out   *output
	ended chan struct{}
}

// start starts a program as an ordinary user.
func (s *sandbox) start(dir, program string, args ...string) (*process, error) {
	p := &process{Cmd: exec.Command(program, args...), out: &output{}, ended: make(chan struct{})}
	p.Stdout, p.Stderr, p.Dir, p.Env = p.out, p.out, dir, s.environment(dir)
	if os.Getuid() == 0 {
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	return p, nil
}

// until waits for a condition, as long as the process runs.
func (p *process) until(what string, ok func() bool) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended (%v) before it %s:\n%s", p.ProcessState, what, p.out)
		default:
		}
	}
	return errors.Join(fmt.Errorf("it never %s:\n%s", what, p.out), p.stop())
}

func (p *process) untilServes(socket string) error {
	return p.until("served "+socket, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// stop has it end in order.
func (p *process) stop() error {
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.Process.Kill()
		<-p.ended
		return fmt.Errorf("it did not stop:\n%s", p.out)
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d after TERM:\n%s", code, p.out)
	}
	return nil
}

// run runs a command to its end and returns its output.
func (s *sandbox) run(dir string, words ...string) (string, error) {
	cmd := exec.Command(words[0], words[1:]...)
	out := &output{}
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.Env = s.environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timer := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w:\n%s", strings.Join(words, " "), err, out)
	}
	return out.String(), nil
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*output)(nil)

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
