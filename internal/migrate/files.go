// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits on what is read. A Lima template with scripts is the largest of the files.
const (
	maxFile    = 256 << 10 // bytes
	maxEntries = 1000      // of a directory
	maxLinks   = 40        // on the way to a file, as the kernel's
	parseTime  = 5 * time.Second
)

// nonBlocking opens what may be a pipe or a terminal without waiting and without making it ours.
const nonBlocking = syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_NOFOLLOW

// resolve follows the links on the way to path as the staged system would, and returns a path below Root without any.
func (s System) resolve(path string) (string, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		fi, err := os.Lstat(filepath.Join(s.Root, next))
		if err != nil {
			return "", withoutRoot(err, path)
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, err := os.Readlink(filepath.Join(s.Root, next))
		if err != nil {
			return "", withoutRoot(err, path)
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

// withoutRoot is err about path, without where the staged root is.
func withoutRoot(err error, path string) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
	}
	return err
}

// stat follows links, and is nil for what is not there. Other failures are problems.
func (f *finder) stat(path string) fs.FileInfo {
	f.plan.Looked = append(f.plan.Looked, path)
	at, err := f.resolve(path)
	if err == nil {
		var fi fs.FileInfo
		if fi, err = os.Lstat(filepath.Join(f.Root, at)); err == nil {
			return fi
		}
	}
	f.problem(path, err)
	return nil
}

// read returns a file's content, or nil: what is absent is no problem, all else is.
func (f *finder) read(path string) []byte {
	f.plan.Looked = append(f.plan.Looked, path)
	b, err := f.readFile(path, maxFile)
	if err != nil {
		f.problem(path, err)
		return nil
	}
	return b
}

func (s System) readFile(path string, limit int) ([]byte, error) {
	at, err := s.resolve(path)
	if err != nil {
		return nil, err
	}

	file, err := os.OpenFile(filepath.Join(s.Root, at), os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, withoutRoot(err, path)
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return nil, withoutRoot(err, path)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("is no regular file but %s", fi.Mode().Type())
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, withoutRoot(err, path)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("is larger than %d KiB, so it was not read", limit>>10)
	}
	return b, nil
}

// list returns the names in a directory, sorted; none when it is not there.
func (f *finder) list(dir string) []string {
	f.plan.Looked = append(f.plan.Looked, dir)
	names, more, err := f.names(dir)
	f.problem(dir, err)
	if more {
		f.problem(dir, fmt.Errorf("has more than %d entries; only some were looked at", maxEntries))
	}
	return names
}

// names returns the names in a directory, sorted, and whether there are more.
func (s System) names(dir string) (names []string, more bool, err error) {
	at, err := s.resolve(dir)
	if err != nil {
		return nil, false, err
	}
	d, err := os.OpenFile(filepath.Join(s.Root, at), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false, withoutRoot(err, dir)
	}
	defer d.Close()
	names, err = d.Readdirnames(maxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if more = len(names) > maxEntries; more {
		names = names[:maxEntries]
	}
	slices.Sort(names)
	return names, more, withoutRoot(err, dir)
}

// problem notes that path could not be read, unless it is just not there.
func (f *finder) problem(path string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return
	}
	fix := "look at it by hand"
	if errors.Is(err, fs.ErrPermission) {
		fix = "run this again with sudo"
	}
	text := err.Error()
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		text = of.Err.Error()
	}
	p := Problem{Path: clean(path), Error: clean(text), Fix: fix}
	if !slices.Contains(f.plan.Problems, p) {
		f.plan.Problems = append(f.plan.Problems, p)
	}
}

// decode reads a file into a T with unmarshal. The YAML parser's time grows with the square of how deep brackets are nested, so
// it gets a limited time, and what is not decoded by then stays undecoded.
func decode[T any](f *finder, path, format string, unmarshal func([]byte, any) error) (out T, ok bool) {
	b := f.read(path)
	if b == nil {
		return out, false
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends by itself: the file's size is limited
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = errors.New("its parser gave up")
			}
			done <- r
		}()
		r.err = unmarshal(b, &r.value)
	}()
	select {
	case r := <-done:
		if r.err != nil {
			f.problem(path, fmt.Errorf("is not the %s that it should be: %s", format, firstLine(r.err.Error())))
			return out, false
		}
		return r.value, true
	case <-time.After(parseTime):
		f.problem(path, fmt.Errorf("took more than %v to parse", parseTime))
		return out, false
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// ReadFile returns the content of a regular file of at most limit bytes, following links as the staged system would. Nothing
// that it opens makes it wait.
func (s System) ReadFile(path string, limit int) ([]byte, error) { return s.readFile(path, limit) }

// Stat tells of the file that path leads to, following links as the staged system would.
func (s System) Stat(path string) (fs.FileInfo, error) {
	at, err := s.resolve(path)
	if err != nil {
		return nil, err
	}
	fi, err := os.Lstat(filepath.Join(s.Root, at))
	return fi, withoutRoot(err, path)
}

// ReadDir returns the first names in a directory, sorted.
func (s System) ReadDir(path string) ([]string, error) {
	names, _, err := s.names(path)
	return names, err
}

// Clean makes foreign text printable and short: it cannot move the cursor or flood the screen.
func Clean(text string) string { return clean(text) }

// SamePath tells whether two paths are one on macOS, where /var, /etc and /tmp are links into /private.
func SamePath(a, b string) bool { return samePath(a, b) }

// Resolve follows the links on the way to path as the staged system would, and returns a path below Root without any.
func (s System) Resolve(path string) (string, error) { return s.resolve(path) }
