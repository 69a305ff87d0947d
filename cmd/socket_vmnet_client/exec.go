// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// defaultPath is searched when PATH is not set, as the C libraries do it.
const defaultPath = "/usr/bin:/bin"

// execvp replaces this process by command, found as C's execvp finds it: a name with a slash is a path, any other is looked
// for in PATH, where an empty element is the current directory. os/exec refuses the latter. It returns only with an error.
func execvp(command []string) error {
	name := command[0]
	if name == "" {
		return syscall.ENOENT
	}
	if strings.Contains(name, "/") {
		return execFile(name, command)
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = defaultPath
	}
	var result error = syscall.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		file := "./" + name
		if dir != "" {
			file = filepath.Join(dir, name)
		}
		err := execFile(file, command)
		switch {
		case errors.Is(err, syscall.EACCES):
			result = err // unless a later one can be run
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		default:
			return err
		}
	}
	return result
}

// execFile runs one file, by the shell if it is a script without an interpreter line.
func execFile(file string, command []string) error {
	err := syscall.Exec(file, command, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) {
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, command[1:]...), os.Environ())
	}
	return err
}
