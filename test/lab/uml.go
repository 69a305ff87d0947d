// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// umlProgram is the kernel as a program, in Tools.UML.
const umlProgram = "usr/bin/linux.uml"

// umlState is a library that it needs on CPUs with AMX: test/lab/csrc.
const umlState = "usr/lib/uml_fp.so"

// launchUML starts a User Mode Linux. Its commands come on its standard input, which is one end of a socket pair.
func (l *Lab) launchUML(_ context.Context, o GuestOptions, dir string) (*Guest, error) {
	theirs, ours, err := stdinPair()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	defer theirs.Close()
	uml := l.opts.Tools.UML
	// What the kernel does not know of its command line is the environment of the first process.
	argv := append(slices.Clone(o.Wrap), filepath.Join(uml, umlProgram),
		"umid="+o.Name, "uml_dir="+dir, "mem=160M", "initrd="+l.image,
		"vec0:transport=fd,fd=3,depth=128,mac="+o.MAC,
		"con=null", "con0=null,fd:1", "ssl1=fd:0", "quiet", "panic=-1",
		"clients="+uml)
	env := append([]string{"LD_PRELOAD=" + filepath.Join(uml, umlState)}, o.Env...)
	p, err := l.start(command{name: o.Name, argv: argv, env: env, stdin: theirs})
	if err != nil {
		ours.Close()
		return nil, err
	}
	return &Guest{Name: o.Name, proc: p, shell: newShell(ours)}, nil
}

func stdinPair() (theirs *os.File, ours net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	own := os.NewFile(uintptr(fds[1]), "commands")
	defer own.Close()
	theirs = os.NewFile(uintptr(fds[0]), "commands")
	if ours, err = net.FileConn(own); err != nil {
		theirs.Close()
	}
	return theirs, ours, err
}
