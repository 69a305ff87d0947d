// SPDX-License-Identifier: Apache-2.0

// Package output puts the files of a report where they belong, and touches no file that a report did not make.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mark is in the head of each file that a report makes. A file without it is somebody else's.
const Mark = "made by test/report"

// Plots is the directory of the plots, below that of the pages.
const Plots = "plots"

// head is how far into a file the mark is looked for.
const head = 512

// Files are the files of a report by their slash-separated path: pages at the top, plots in Plots.
type Files map[string][]byte

// paths are those of the files in a stable order.
func (f Files) paths() []string { return slices.Sorted(maps.Keys(f)) }

// ours tells whether a report made the file. A file that does not exist is nobody's.
func ours(path string) (exists, made bool, err error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if !fi.Mode().IsRegular() {
		return true, false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return true, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, head))
	return true, bytes.Contains(b, []byte(Mark)), err
}

// Write puts the files into dir, which it makes if need be, and removes pages and plots of earlier reports that are not among
// them. It refuses, before it has changed anything, a directory that is neither empty nor a report's, and one where another
// file is in the place of one of these.
func Write(dir string, files Files) error {
	if err := checkDir(dir); err != nil {
		return err
	}
	for _, p := range files.paths() {
		path := filepath.Join(dir, filepath.FromSlash(p))
		exists, made, err := ours(path)
		if err != nil {
			return fmt.Errorf("look at what is in the way: %w", err)
		}
		if exists && !made {
			return fmt.Errorf("%s was not made by a report: move it away or choose another directory", path)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, Plots), 0o755); err != nil {
		return fmt.Errorf("make the directory of the report: %w", err)
	}
	for _, p := range files.paths() {
		if err := replace(filepath.Join(dir, filepath.FromSlash(p)), files[p]); err != nil {
			return err
		}
	}
	old, err := leftOver(dir, files)
	if err != nil {
		return err
	}
	for _, p := range old {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(p))); err != nil {
			return fmt.Errorf("remove a file of an earlier report: %w", err)
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(b)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// checkDir refuses a directory with content that has nothing to do with reports.
func checkDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the directory of the report: %w", err)
	}
	_, made, err := ours(filepath.Join(dir, "README.md"))
	if err != nil {
		return fmt.Errorf("look whether there is a report: %w", err)
	}
	for _, e := range entries {
		switch {
		case e.Name() == Plots && !e.IsDir():
			return fmt.Errorf("%s is no directory: move it away or choose another directory", filepath.Join(dir, Plots))
		case e.Name() == "raw" || e.Name() == Plots || strings.HasSuffix(e.Name(), ".json"):
		case !made:
			return fmt.Errorf("%s holds %s and no report: give an empty or new directory", dir, e.Name())
		}
	}
	return nil
}

// leftOver are the pages and plots of earlier reports in dir that are not among the files.
func leftOver(dir string, files Files) (paths []string, err error) {
	for _, pattern := range []string{"*.md", Plots + "/*.svg"} {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			_, made, err := ours(filepath.Join(dir, filepath.FromSlash(p)))
			if err != nil {
				return nil, fmt.Errorf("look at what earlier reports left: %w", err)
			}
			if _, wanted := files[p]; made && !wanted {
				paths = append(paths, p)
			}
		}
	}
	return paths, nil
}

// Compare is an error that names every file in dir that differs from the files, is missing, or is left over.
func Compare(dir string, files Files) error {
	var wrong []string
	for _, p := range files.paths() {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, p+" is missing")
		case err != nil:
			return fmt.Errorf("compare with what is there: %w", err)
		case !bytes.Equal(b, files[p]):
			wrong = append(wrong, p+" differs"+firstDifference(b, files[p]))
		}
	}
	old, err := leftOver(dir, files)
	if err != nil {
		return err
	}
	for _, p := range old {
		wrong = append(wrong, p+" is left over")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not what the raw rounds give: run make report\n  %s", dir, strings.Join(wrong, "\n  "))
}

// firstDifference names the first line that differs.
func firstDifference(have, want []byte) string {
	h, w := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(h), len(w)) {
		if !bytes.Equal(h[i], w[i]) {
			return fmt.Sprintf(" in line %d", i+1)
		}
	}
	return " in its length"
}
