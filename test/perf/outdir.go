// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// marker is the file by which perf knows its own directories for results, and its own virtual machines.
const marker = ".socket_vmnet2-perf"

const markerText = "Made by test/perf.sh of socket_vmnet2, which may write here and delete what it made.\n"

// partSuffix ends the name of a directory while a run fills it.
const partSuffix = ".part"

// claim makes a directory for results, or checks that one that is there is perf's own or empty.
func claim(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(dir, 0o755)
	case err == nil && len(entries) > 0:
		if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
			return nil
		}
		return fmt.Errorf("%s is not empty and was not made by test/perf.sh, nothing was changed: choose another directory with -o, "+
			"or let results be written there: touch %s", dir, filepath.Join(dir, marker))
	}
	if err == nil {
		err = mark(dir)
	}
	if err != nil {
		return fmt.Errorf("make a directory for results, choose another with -o: %w", err)
	}
	return nil
}

func mark(dir string) error {
	return os.WriteFile(filepath.Join(dir, marker), []byte(markerText), 0o644)
}

// A part is a directory that is being filled. It takes its name when all of it is there, so that a directory without the
// suffix is never half of a run, nor half of one and half of another.
type part struct{ dir, final string }

// begin makes the directory for results called name in out, which has been claimed. What an interrupted run has left there
// goes.
func begin(out, name string) (*part, error) {
	p := &part{dir: filepath.Join(out, name+partSuffix), final: filepath.Join(out, name)}
	if err := errors.Join(os.RemoveAll(p.dir), os.MkdirAll(p.dir, 0o755)); err != nil {
		return nil, fmt.Errorf("make a directory for results: %w", err)
	}
	return p, nil
}

// write puts b into the file called name.
func (p *part) write(name string, b []byte) error {
	if err := os.WriteFile(filepath.Join(p.dir, name), b, 0o644); err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	return nil
}

// writeJSON is write for what is no raw output.
func (p *part) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return p.write(name, append(b, '\n'))
}

// finish gives the directory its name. The results of an earlier run with the same name go.
func (p *part) finish() error {
	old := p.final + ".old" + partSuffix
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("replace %s: %w", p.final, err)
	}
	if err := os.Rename(p.final, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", p.final, err)
	}
	if err := os.Rename(p.dir, p.final); err != nil {
		return fmt.Errorf("finish %s: %w", p.final, err)
	}
	return os.RemoveAll(old)
}
