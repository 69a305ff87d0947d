// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// daemonDirs are where socket_vmnet2 is installed if this program is not, a copy in /opt/vmnet-helper/bin for instance.
var daemonDirs = []string{
	"/opt/socket_vmnet/bin", "/opt/homebrew/opt/socket_vmnet2/bin", "/usr/local/opt/socket_vmnet2/bin", "/opt/local/bin",
}

// list prints the interfaces that a bridged network can have, one per line. The daemon's program knows them.
func list(ctx context.Context, stdout, stderr io.Writer) error {
	program, err := findProgram()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "--list-interfaces")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s --list-interfaces: %w", program, err)
	}
	return nil
}

// findProgram returns the path of socket_vmnet2: beside this program, in ../bin, or where it is usually installed.
func findProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find socket_vmnet2: %w", err)
	}
	dir := filepath.Dir(self)
	for _, d := range append([]string{dir, filepath.Join(dir, "..", "bin")}, daemonDirs...) {
		path := filepath.Join(d, "socket_vmnet2")
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("find socket_vmnet2: neither beside this program nor in ../bin: install it there")
}
