// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"os"
	"syscall"
)

// An environment is what a process was started with, as far as it tells of a service manager.
type environment struct {
	lookup           func(string) (string, bool)
	unset            func(string) error
	pid, ppid        int
	uid, euid        int
	gid, egid        int
	firstDescriptor  int // systemd's is 3; tests cannot have that one
	closeOnExecution func(fd int)
}

// firstDescriptor is where systemd's descriptors begin, SD_LISTEN_FDS_START.
const firstDescriptor = 3

func processEnvironment() environment {
	return environment{
		lookup: os.LookupEnv, unset: os.Unsetenv,
		pid: os.Getpid(), ppid: os.Getppid(),
		uid: os.Getuid(), euid: os.Geteuid(), gid: os.Getgid(), egid: os.Getegid(),
		firstDescriptor: firstDescriptor, closeOnExecution: syscall.CloseOnExec,
	}
}

// Getenv is os.Getenv for what is the user's to say: empty in a process that has more rights than whoever started it.
func Getenv(name string) string { return processEnvironment().get(name) }

func (e environment) get(name string) string {
	if e.uid != e.euid || e.gid != e.egid {
		return ""
	}
	v, _ := e.lookup(name)
	return v
}

// DropUnheeded removes from the environment what this process does not heed and an image after an upgrade could, once its parent
// has ended and process 1 is its parent.
func DropUnheeded() { processEnvironment().dropUnheeded() }

func (e environment) dropUnheeded() {
	if !e.heeded() {
		e.take("STATE_DIRECTORY")
	}
}

// heeded reports whether this process heeds what a service manager says in the environment: as root only as a child of process 1,
// and never with more rights than the account that started it, whose environment it is.
func (e environment) heeded() bool {
	return e.uid == e.euid && e.gid == e.egid && (e.euid != 0 || e.ppid == 1)
}

// take returns a variable and removes it from the environment.
func (e environment) take(name string) (string, bool) {
	v, ok := e.lookup(name)
	if ok {
		_ = e.unset(name)
	}
	return v, ok
}
