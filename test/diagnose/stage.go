// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// patience is how long anything may take that takes milliseconds to a few seconds.
const patience = 40 * time.Second

// pause is between two looks at what is waited for, which cost a process each.
const pause = 250 * time.Millisecond

// shownDir is what the page has in place of a stage's directory: of the same length, so that tables stay as they are.
const shownDir = "/tmp/example"

// A stage is where one scene is played: a directory, a daemon, guests, and what was typed and printed.
type stage struct {
	ctx  context.Context
	w    *world
	dir  string
	sim  bool // the daemons are on the simulated vmnet
	page *transcript
	// rename has what is printed as if an interface were called otherwise; nil: as it is.
	rename *strings.Replacer

	daemon *exec.Cmd
	guests []*actor
	faults []string // what was not as it should be
	late   bool     // something never happened
}

// newStage makes the directory. close ends everything.
func newStage(ctx context.Context, w *world, page *transcript) (*stage, error) {
	s := &stage{ctx: ctx, w: w, page: page}
	for range 100 {
		s.dir = fmt.Sprintf("/tmp/%07x", rand.Uint32N(1<<28))
		err := os.Mkdir(s.dir, 0o700)
		if err == nil {
			return s, s.own(s.dir)
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return nil, errors.New("no directory of this length is free in /tmp")
}

// own gives what root has made to the user that everything runs as.
func (s *stage) own(path string) error {
	if os.Geteuid() == 0 {
		return os.Chown(path, ordinary, ordinary)
	}
	return nil
}

func (s *stage) close() error {
	for _, g := range s.guests {
		g.end()
	}
	return errors.Join(s.stopDaemon(), os.RemoveAll(s.dir))
}

// shown changes the names of directories to those that the page has.
func (s *stage) shown() *strings.Replacer {
	const installed = "/opt/socket_vmnet/bin"
	return strings.NewReplacer(s.dir, shownDir, s.w.path("bin"), installed, s.w.path("sim"), installed)
}

// socket is where the daemon is.
func (s *stage) socket() string { return s.dir + "/sock" }

// command is a process of the scene.
func (s *stage) command(name string, args ...string) *exec.Cmd {
	programs := "bin"
	if s.sim {
		programs = "sim"
	}
	cmd := exec.CommandContext(s.ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + s.w.path(programs) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + s.dir, "XDG_STATE_HOME=" + s.dir + "/state", "TMPDIR=" + s.dir, "LC_ALL=C", "TERM=dumb",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	cmd.WaitDelay = patience
	return cmd
}

// start starts the daemon with these options, which the page shows as they would be typed.
func (s *stage) start(options ...string) {
	words := append(append([]string{"socket_vmnet2"}, options...), s.socket())
	s.page.add(s.shown(), strings.Join(words, " ")+" 2>>log &", "", 0)
	if s.sim {
		words = slices.Insert(words, 1, "--backend=vmnet", "--vmnetsim-lib="+s.w.simulator, "--vmnetsim-dir="+s.dir+"/sim")
	}
	log, err := os.OpenFile(s.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if s.fault(err) {
		return
	}
	defer log.Close()
	if s.fault(s.own(log.Name())) {
		return
	}
	program := s.w.path("bin/socket_vmnet2")
	if s.sim {
		program = s.w.path("sim/socket_vmnet2")
	}
	s.daemon = s.command(program, words[1:]...)
	s.daemon.Stderr = log
	if s.fault(s.daemon.Start()) {
		s.daemon = nil
		return
	}
	s.until("the socket is there", func() bool { // not connected to: that would be a client more
		_, err := os.Lstat(s.socket())
		return err == nil
	})
}

// restart is start in place of the daemon that runs. Guests connect again by themselves.
func (s *stage) restart(options ...string) {
	s.page.add(s.shown(), "kill %1; wait", "", 0)
	s.fault(s.stopDaemon())
	s.start(options...)
}

func (s *stage) stopDaemon() error {
	if s.daemon == nil {
		return nil
	}
	_ = s.daemon.Process.Signal(syscall.SIGTERM)
	err := s.daemon.Wait()
	s.daemon = nil
	if err != nil && s.ctx.Err() == nil {
		return fmt.Errorf("the daemon: %w", err)
	}
	return nil
}

// guest starts one that is called name.
func (s *stage) guest(name, mac string) *actor {
	a := &actor{s: s, name: name, mac: mac}
	s.guests = append(s.guests, a)
	a.cmd = s.command(s.w.path("lib/"+guestPrefix+name), s.socket(), mac)
	a.cmd.Args[0] = guestPrefix + name
	in, err := a.cmd.StdinPipe()
	if s.fault(err) {
		return a
	}
	out, err := a.cmd.StdoutPipe()
	if s.fault(err) {
		return a
	}
	a.cmd.Stderr = os.Stderr
	a.in, a.out = in, bufio.NewReader(out)
	if s.fault(a.cmd.Start()) {
		a.in = nil
		return a
	}
	a.do("connect")
	return a
}

// An actor is a guest in a process of its own.
type actor struct {
	s         *stage
	name, mac string
	cmd       *exec.Cmd
	in        io.WriteCloser // nil: it did not start
	out       *bufio.Reader
}

// do has the guest do something and returns its answer.
func (a *actor) do(line string) string {
	if a.in == nil || a.s.late {
		return ""
	}
	if _, err := fmt.Fprintln(a.in, line); a.s.fault(err) {
		return ""
	}
	answer, err := a.out.ReadString('\n')
	answer = strings.TrimSpace(answer)
	if err == nil && strings.HasPrefix(answer, "error: ") {
		err = errors.New(answer)
	}
	if err != nil {
		a.s.never(fmt.Errorf("guest %s: %s: %w", a.name, line, err))
	}
	return answer
}

func (a *actor) end() {
	if a.in == nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGCONT)
	_ = a.in.Close()
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a.in = nil
}

// fault notes that something failed, and tells whether it did.
func (s *stage) fault(err error) bool {
	if err != nil {
		s.faults = append(s.faults, err.Error())
	}
	return err != nil
}

// until waits for a condition. When one never came, the further ones are not waited for.
func (s *stage) until(what string, ok func() bool) {
	if s.late {
		return
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && s.ctx.Err() == nil; time.Sleep(pause) {
		if ok() {
			return
		}
	}
	s.never(fmt.Errorf("never: %s", what))
}

// never notes what did not happen in time, with what the daemon has to say.
func (s *stage) never(err error) {
	s.late = true
	log, _ := os.ReadFile(s.dir + "/log")
	s.fault(fmt.Errorf("%w; the daemon's log:\n%s", err, log))
}

// show types a command, and returns what it printed. The page has both.
func (s *stage) show(command string) string {
	out, code := s.run(command)
	if s.rename != nil {
		out = s.rename.Replace(out)
	}
	s.page.add(s.shown(), command, out, code)
	return out
}

// run types a command without showing it.
func (s *stage) run(command string) (string, int) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	cmd := s.command("/bin/sh", "-c", strings.ReplaceAll(command, shownDir, s.dir))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
	})
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.fault(fmt.Errorf("%s: %w", command, err))
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// status is what the daemon says of itself; the zero one if it says nothing.
func (s *stage) status() (st status.Status) {
	out, _ := s.run("socket_vmnet2 status --json " + s.socket())
	_ = json.Unmarshal([]byte(out), &st)
	return st
}

// sick waits until the daemon has a problem of this code.
func (s *stage) sick(code string) {
	s.until("health has "+code, func() bool { return has(s.status(), code) })
}

// healthy waits until the daemon answers and has no problem at all.
func (s *stage) healthy() {
	s.until("health is empty", func() bool {
		st := s.status()
		return st.Format > 0 && len(st.Health) == 0
	})
}

func has(st status.Status, code string) bool {
	return slices.ContainsFunc(st.Health, func(p status.Problem) bool { return p.Code == code })
}

// names checks that text names a cause: all the words are in it, whatever is between them.
func (s *stage) names(text string, words ...string) {
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			s.fault(fmt.Errorf("%q is not named in:\n%s", word, text))
		}
	}
}

// silent checks that text has none of the words.
func (s *stage) silent(text string, words ...string) {
	for _, word := range words {
		if strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			s.fault(fmt.Errorf("%q is named in:\n%s", word, text))
		}
	}
}
