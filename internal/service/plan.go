// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A file is one that is written.
type file struct {
	path, text string
}

// A step is one change. What it shows is what it does.
type step struct {
	shows []string // one per line, without what a file has in it
	file  *file
	do    func(ctx context.Context) error
}

// A plan is what is done, in order.
type plan struct {
	sys   *System
	steps []step
}

func (p *plan) add(s step) { p.steps = append(p.steps, s) }

// command runs a command, which has to succeed.
func (p *plan) command(argv ...string) { p.commandUnless(nil, argv...) }

// commandTried runs a command, and again for a while if it fails and again is set.
func (p *plan) commandTried(again bool, argv ...string) {
	p.add(step{shows: []string{"run " + shellLine(argv)}, do: func(ctx context.Context) error {
		err := p.sys.command(ctx, nil, argv)
		for end := time.Now().Add(p.sys.Patience / 2); again && err != nil && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(p.sys.Tick)
			err = p.sys.command(ctx, nil, argv)
		}
		return err
	}})
}

// commandUnless runs a command; accepted tells of a failure whether it is none.
func (p *plan) commandUnless(accepted func(Result) bool, argv ...string) {
	p.add(step{shows: []string{"run " + shellLine(argv)}, do: func(ctx context.Context) error {
		return p.sys.command(ctx, accepted, argv)
	}})
}

// command runs a command, and tells how it failed.
func (s *System) command(ctx context.Context, accepted func(Result) bool, argv []string) error {
	r, err := s.Run(ctx, argv...)
	if err == nil && r.Code != 0 && (accepted == nil || !accepted(r)) {
		err = fmt.Errorf("exit code %d: %s", r.Code, cmp.Or(strings.TrimSpace(r.Stderr+r.Stdout), "it says nothing"))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", shellLine(argv), err)
	}
	return nil
}

// wait waits until done says so. It changes nothing, so it is not shown.
func (p *plan) wait(what string, done func(ctx context.Context) bool) {
	p.add(step{do: func(ctx context.Context) error { return p.sys.until(ctx, what, done) }})
}

// write writes a file that the library knows nothing of.
func (p *plan) write(f file) {
	p.add(step{shows: []string{"write " + f.path + ", mode 0644:"}, file: &f, do: func(context.Context) error {
		return p.sys.writeFile(f)
	}})
}

// library has the library do something; shows are the commands that it runs.
func (p *plan) library(f *file, shows []string, do func() error) {
	if f != nil {
		shows = append([]string{"write " + f.path + ", mode 0644:"}, shows...)
	}
	p.add(step{shows: shows, file: f, do: func(context.Context) error { return do() }})
}

// directory makes a directory unless it is there.
func (p *plan) directory(path string, mode os.FileMode) {
	if fi, err := os.Stat(p.sys.at(path)); err == nil && fi.IsDir() {
		return
	}
	p.add(step{shows: []string{fmt.Sprintf("make directory %s, mode %04o", path, mode)}, do: func(context.Context) error {
		if err := os.MkdirAll(p.sys.at(path), mode); err != nil {
			return fmt.Errorf("make the directory %s: %w", path, err)
		}
		return nil
	}})
}

// remove removes a file, or an empty directory. That it is not there is no error.
func (p *plan) remove(path string) {
	p.add(step{shows: []string{"remove " + path}, do: func(context.Context) error {
		if err := os.Remove(p.sys.at(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		return nil
	}})
}

// carryOut does all steps, or prints them.
func (p *plan) carryOut(ctx context.Context, out io.Writer, dry bool) error {
	for _, s := range p.steps {
		if !dry {
			if err := s.do(ctx); err != nil {
				return err
			}
			continue
		}
		for i, line := range s.shows {
			_, _ = fmt.Fprintln(out, line)
			if i == 0 && s.file != nil {
				_, _ = fmt.Fprintln(out, "| "+strings.ReplaceAll(strings.TrimSuffix(s.file.text, "\n"), "\n", "\n| "))
			}
		}
	}
	return nil
}

// at is where path is in the system.
func (s *System) at(path string) string {
	if s.Root == "" {
		return path
	}
	return filepath.Join(s.Root, path)
}

// writeFile puts a file in its place all at once.
func (s *System) writeFile(f file) error {
	path := s.at(f.path)
	tmp, err := os.CreateTemp(filepath.Dir(path), ".socket_vmnet2-")
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.WriteString(f.text)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// read reads the files that are there.
func (s *System) read(paths ...string) (map[string]string, error) {
	files := map[string]string{}
	for _, path := range paths {
		b, err := os.ReadFile(s.at(path))
		switch {
		case err == nil:
			files[path] = string(b)
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("read what is installed: %w", err)
		}
	}
	return files, nil
}

// installed checks what the library has written, and gives it the mode that it has to have: with the umask's, a group might
// write to it, and launchd loads no such job.
func (s *System) installed(f file) error {
	got, err := os.ReadFile(s.at(f.path))
	if err == nil && string(got) != f.text {
		err = errors.New("it has another text than it was given")
	}
	if err == nil {
		err = os.Chmod(s.at(f.path), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// shellLine is a command as a shell takes it.
func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if !plain().MatchString(a) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
