// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	kardianos "github.com/kardianos/service"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// A system is where jobs are installed. Tests make their own.
type system struct {
	find.System
	Home       string // of the user
	RuntimeDir string // of the user, XDG_RUNTIME_DIR
	UID        int
	Darwin     int // major version of the kernel, 25 in macOS 26; 0: not known

	// Control has the manager start, stop or restart a job.
	Control func(j *job, verb string) error
	// Reach tells whether something accepts connections at a socket.
	Reach func(path string) error
	// Patience is how long a job may take to start or to end, Tick how often it is looked at.
	Patience, Tick time.Duration
}

// This is the system that the program runs on.
func This() *system {
	s := &system{
		System: find.Machine(), RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), UID: os.Geteuid(),
		Control: control, Reach: reach, Patience: 20 * time.Second, Tick: 100 * time.Millisecond,
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
