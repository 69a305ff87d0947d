// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"time"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/unix"
)

// This is the system that the program runs on.
func This() *system {
	s := &system{
		GOOS: runtime.GOOS, RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), UID: os.Geteuid(),
		Run: runCommand, Control: control, Reach: reach,
		Patience: 20 * time.Second, Tick: 100 * time.Millisecond,
	}
	// The library writes to the home directory that HOME says, but for macOS.
	s.Home, _ = os.UserHomeDir()
	if s.GOOS == "darwin" {
		if u, err := user.Current(); err == nil {
			s.Home = u.HomeDir
		}
		var name unix.Utsname
		if unix.Uname(&name) == nil {
			major, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), ".")
			s.Darwin, _ = strconv.Atoi(major)
		}
	}
	return s
}

// runCommand runs a command of the service manager.
func runCommand(ctx context.Context, argv ...string) (result, error) {
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	r := result{Stdout: stdout.String(), Stderr: stderr.String()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		r.Code, err = exit.ExitCode(), nil
	}
	return r, err
}

// reach connects and closes again: such a client costs the daemon nothing.
func reach(path string) error {
	c, err := net.DialTimeout("unix", path, 5*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// control does it with github.com/kardianos/service.
func control(j *job, verb string) error {
	s, err := kardianos.New(noProgram{}, &kardianos.Config{Name: j.Name, Option: kardianos.KeyValue{"UserService": j.User}})
	if err != nil {
		return err
	}
	return kardianos.Control(s, verb)
}

// noProgram stands for a program that the library would run: it runs none.
type noProgram struct{}

func (noProgram) Start(kardianos.Service) error { return nil }
func (noProgram) Stop(kardianos.Service) error  { return nil }
