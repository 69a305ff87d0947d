// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"
	"os"
	"os/exec"
)

// childEnv is the environment variable that holds the descriptor of what a parent gives a child.
const childEnv = "SOCKET_VMNET2_CHILD"

// FirstGiven is the number that the first file has in a child of Start.
const FirstGiven = 4

// Start starts this program again, as a child that is given files, and state, which names them by their numbers there.
func Start(state any, files []*os.File) (*exec.Cmd, error) {
	path, err := StartPath(os.Args[0])
	if err != nil {
		return nil, err
	}
	o := Out{}
	for i := range files {
		o.FD(FirstGiven + i)
	}
	m, err := o.write(state)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	cmd := exec.Command(path)
	cmd.Args, cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Args, os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles, cmd.Env = append([]*os.File{m}, files...), append(os.Environ(), fmt.Sprintf("%s=%d", childEnv, FirstGiven-1))
	return cmd, cmd.Start()
}

// IsTold reports whether another process of the program seems to hand something over to this one: its parent, or the image before.
func IsTold() bool {
	return os.Getenv(envName)+os.Getenv(guardEnv)+os.Getenv(childEnv) != ""
}

// Given reads the state that the parent gave this process, if it did, into v; the files are the process's own. It is called once, as
// Inherited is, and checks as much: only a process of our user can have made it.
func Given(v any) error {
	text, ok := os.LookupEnv(childEnv)
	_ = os.Unsetenv(childEnv)
	if !ok {
		return nil
	}
	i, err := take(text, os.Getppid())
	if err == nil {
		err = i.Get(v)
	}
	if err != nil {
		return fmt.Errorf("take what the parent gives: %w", err)
	}
	return nil
}
