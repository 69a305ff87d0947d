// SPDX-License-Identifier: Apache-2.0

// Package cbuild compiles the C programs that tests need, once for the same sources and flags.
package cbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A Program is what Build makes.
type Program struct {
	Dir   string            // below build in the repository
	Name  string            // of the binary
	Flags []string          // more than those that are for all
	Files map[string][]byte // by base name: .c files are compiled, and all of them lie beside the binary
}

// cflags are for everything that is built here.
var cflags = []string{"-std=c11", "-D_GNU_SOURCE", "-g", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"}

// ErrNoCompiler is wrapped by errors about a missing gcc.
var ErrNoCompiler = errors.New("gcc not found")

// Must returns the path that Build returned. Without gcc it skips the test, except in CI, where it fails.
func Must(tb testing.TB, path string, err error) string {
	tb.Helper()
	if errors.Is(err, ErrNoCompiler) {
		if os.Getenv("CI") != "" {
			tb.Fatal("gcc is required in CI: apt-get install gcc libc6-dev")
		}
		tb.Skip("needs gcc, try: apt-get install gcc libc6-dev")
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Sanitizers are the flags for gcc's address and undefined behaviour sanitizers.
var Sanitizers = []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}

// Sources are the files of a directory and more ones, given by path, by base name.
func Sources(dir fs.FS, more ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path.Base(p)], err = fs.ReadFile(dir, p)
		return err
	})
	for _, p := range more {
		b, readErr := os.ReadFile(p)
		files[filepath.Base(p)] = b
		err = errors.Join(err, readErr)
	}
	return files, err
}

// CTests are the tests in C of the package in the working directory, with what those of all packages share.
func CTests() ([]string, error) {
	own, err := filepath.Glob("ctest/*.[ch]")
	shared, _ := filepath.Glob("../cbuild/ctest/*.[ch]")
	return append(own, shared...), err
}

// Build makes the binary unless it is there already, in a directory that is named by what goes into it, and returns its
// path. It may run in several processes at the same time.
func (p Program) Build(ctx context.Context) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, ErrNoCompiler)
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	p.Flags = slices.Concat(cflags, p.Flags)
	h := sha256.New() // of what goes into the binary
	_, _ = fmt.Fprintf(h, "%s\n%q\n", p.Name, p.Flags)
	for _, f := range slices.Sorted(maps.Keys(p.Files)) {
		_, _ = fmt.Fprintf(h, "%s %d\n%s", f, len(p.Files[f]), p.Files[f])
	}
	dir := filepath.Join(root, "build", p.Dir, hex.EncodeToString(h.Sum(nil))[:16])
	out := filepath.Join(dir, p.Name)
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	args := append(slices.Clone(p.Flags), "-o", out+".new")
	for _, f := range slices.Sorted(maps.Keys(p.Files)) {
		if err := os.WriteFile(filepath.Join(dir, f), p.Files[f], 0o644); err != nil {
			return "", err
		}
		if strings.HasSuffix(f, ".c") {
			args = append(args, filepath.Join(dir, f))
		}
	}
	if b, err := exec.CommandContext(ctx, gcc, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", p.Name, err, b)
	}
	return out, os.Rename(out+".new", out)
}

// ModuleRoot is the directory with go.mod, above the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("find go.mod: none in %s or above, run this in the source tree", dir)
		}
	}
}

// lock makes a directory and waits for an exclusive lock on it.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := Flock(f, syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Flock is flock(2), again after a signal.
func Flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

// Command runs a program with a sanitizer. Those of gcc 12 and 13 do not cope with addresses as random as some kernels
// make them: google/sanitizers issue 1716.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	b, err := os.ReadFile("/proc/sys/vm/mmap_rnd_bits")
	if text := strings.TrimSpace(string(b)); err == nil && len(text) == 2 && text > "28" {
		return exec.CommandContext(ctx, "setarch", append([]string{"-R", program}, args...)...)
	}
	return exec.CommandContext(ctx, program, args...)
}
