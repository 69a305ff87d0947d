// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A source is the programs to install.
type source struct {
	files   map[string]string // by target
	sums    map[string]string
	version string
}

// findSource looks for the programs. They must run if they are for this machine, which those for a staged root need not be.
func findSource(ctx context.Context, from string, try bool) (*source, error) {
	if from == "" {
		program, err := os.Executable()
		if err == nil {
			program, err = filepath.EvalSymlinks(program)
		}
		if err != nil {
			return nil, fmt.Errorf("find this program: %w; say where the programs are with --from", err)
		}
		from = filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(from, "../libexec/vmnet-helper")); err == nil && filepath.Base(from) == "bin" {
			from = filepath.Dir(from)
		}
	}
	s := &source{files: map[string]string{}, sums: map[string]string{}, version: "socket_vmnet2"}
	for _, t := range targets {
		file, err := findProgram(from, t)
		if err != nil {
			return nil, err
		}
		s.files[t] = file
		if s.sums[t], err = sumOf(file); err != nil {
			return nil, err
		}
	}
	if s.sums["bin/socket_vmnet"] != s.sums["bin/socket_vmnet2"] {
		return nil, fmt.Errorf("%s and %s differ, but are one program under two names: %s is half installed, or socket_vmnet's own; build it again",
			s.files["bin/socket_vmnet"], s.files["bin/socket_vmnet2"], from)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	program := s.files["bin/socket_vmnet2"]
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err == nil {
		s.version = strings.TrimSpace(string(out))
	} else if try {
		return nil, fmt.Errorf("%s does not run here, so it is of no use: %w", program, err)
	}
	return s, nil
}

// findProgram finds a target in a prefix, or in a directory that has all of them.
func findProgram(where, target string) (string, error) {
	for _, path := range []string{filepath.Join(where, target), filepath.Join(where, filepath.Base(target))} {
		fi, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case !fi.Mode().IsRegular():
			continue // bin/socket_vmnet2 in a prefix of the name socket_vmnet2
		case fi.Size() == 0:
			return "", fmt.Errorf("%s is empty: a build or an installation was interrupted; do it again", path)
		}
		return filepath.Abs(path)
	}
	if target == "bin/socket_vmnet" { // the same program, under the name that is there in any case
		return findProgram(where, "bin/socket_vmnet2")
	}
	return "", fmt.Errorf("%s has neither %s nor %s: name a directory that has all programs with --from, as bin after make",
		where, target, filepath.Base(target))
}
