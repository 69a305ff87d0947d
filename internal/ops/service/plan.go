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

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A step is one change, or a wait, which shows nothing.
type step struct {
	shows string // one line, or several
	do    func(ctx context.Context) error
}

// A plan is what is done, in order.
type plan struct {
	sys   *system
	steps []step
	again bool // what is added is tried again for a while
}

func (p *plan) add(shows string, do func(ctx context.Context) error) {
	p.steps = append(p.steps, step{shows, do})
}

// run runs a command, which has to succeed.
func (p *plan) run(argv ...string) {
	p.add("run "+printable.Command(argv...), func(ctx context.Context) error {
		r, err := p.sys.Run(ctx, argv...)
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("exit code %d: %s", r.Code, cmp.Or(strings.TrimSpace(r.Stderr+r.Stdout), "it says nothing"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", printable.Command(argv...), err)
		}
		return nil
	})
}

// control has the library do something; commands are what it runs then.
func (p *plan) control(j *job, verb, logs string, commands ...string) {
	again := p.again
	p.add(strings.Join(commands, "\n"), func(ctx context.Context) error {
		err := p.sys.Control(j, verb)
		if err != nil && again { // launchd may refuse a job for a moment that was just unloaded, even if it knows it no more
			_ = p.sys.until(ctx, func(context.Context) bool { err = p.sys.Control(j, verb); return err == nil })
		}
		if err != nil {
			return fmt.Errorf("%s: %w; %s tells more", strings.TrimPrefix(commands[0], "run "), err, logs)
		}
		return nil
	})
}

// wait waits until done says so.
func (p *plan) wait(what string, done func(ctx context.Context) bool) {
	p.add("", func(ctx context.Context) error {
		if err := p.sys.until(ctx, done); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// until waits until done says so, as long as the system's patience lasts.
func (s *system) until(ctx context.Context, done func(ctx context.Context) bool) error {
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	for end := time.Now().Add(s.Patience); !done(ctx); {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v", s.Patience)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// write puts a file in its place all at once, with a mode that launchd takes: it loads no job that a group can write to.
func (p *plan) write(path, text string) {
	shows := "write " + path + ", mode 0644:\n| " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ")
	p.add(shows, func(context.Context) error {
		tmp, err := os.CreateTemp(filepath.Dir(p.sys.at(path)), ".socket_vmnet2-")
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		defer func() { _ = os.Remove(tmp.Name()) }()
		_, err = tmp.WriteString(text)
		if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
			err = os.Rename(tmp.Name(), p.sys.at(path))
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return nil
	})
}

// directory makes a directory unless it is there.
func (p *plan) directory(path string, mode os.FileMode) {
	if fi, err := os.Stat(p.sys.at(path)); err == nil && fi.IsDir() {
		return
	}
	p.add(fmt.Sprintf("make directory %s, mode %04o", path, mode), func(context.Context) error {
		if err := os.MkdirAll(p.sys.at(path), mode); err != nil {
			return fmt.Errorf("make the directory %s: %w", path, err)
		}
		return nil
	})
}

// remove removes a file. That it is not there is no error.
func (p *plan) remove(path string) {
	p.add("remove "+path, func(context.Context) error {
		if err := os.Remove(p.sys.at(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		return nil
	})
}

// carryOut does all steps, or prints them.
func (p *plan) carryOut(ctx context.Context, out io.Writer, dry bool) error {
	for _, s := range p.steps {
		switch {
		case !dry:
			if err := s.do(ctx); err != nil {
				return err
			}
		case s.shows != "":
			_, _ = fmt.Fprintln(out, s.shows)
		}
	}
	return nil
}

// at is where path is in the system.
func (s *system) at(path string) string {
	if s.Root == "" {
		return path
	}
	return filepath.Join(s.Root, path)
}

// read reads the files that are there.
func (s *system) read(paths ...string) (map[string]string, error) {
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
