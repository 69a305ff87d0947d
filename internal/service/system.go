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
	"time"
)

// This is the system that the program runs on.
func This() *System {
	return &System{
		GOOS: runtime.GOOS, Home: homeDirectory(), RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), UID: os.Geteuid(), Darwin: darwinKernel(),
		Run:     runCommand,
		Find:    func(program string) error { _, err := exec.LookPath(program); return err },
		Manager: detected,
		Library: kardianosLibrary{runtime.GOOS},
		Reach:   reach,
		Group: func(name string) (int, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(g.Gid)
		},
		Account:  func(name string) error { _, err := user.Lookup(name); return err },
		Patience: 20 * time.Second, Tick: 100 * time.Millisecond,
	}
}

// runCommand runs a command of the service manager.
func runCommand(ctx context.Context, argv ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
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
