// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// step makes one change, or shows it in a dry run. After one that has failed none is made. A wait shows nothing.
func (j *job) step(shows string, do func() error) {
	j.changed = true
	switch {
	case j.err != nil:
	case !j.Dry:
		j.err = do()
	case shows != "":
		_, _ = fmt.Fprintln(j.Out, shows)
	}
}

// wait waits until done says so.
func (j *job) wait(what string, done func() bool) {
	j.step("", func() error {
		if err := j.until(done); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// until waits until done says so, as long as the system's patience lasts.
func (j *job) until(done func() bool) error {
	for end := time.Now().Add(j.Patience); !done(); {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v", j.Patience)
		}
		select {
		case <-j.ctx.Done():
			return context.Cause(j.ctx)
		case <-time.After(j.Tick):
		}
	}
	return nil
}

// write puts a file in its place all at once, with a mode that launchd takes: it loads no job that a group can write to.
func (j *job) write(path, text string) {
	shows := "write " + path + ", mode 0644:\n| " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ")
	j.step(shows, func() error {
		if err := replace(j.at(path), 0o644, []byte(text)); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return nil
	})
}

// directory makes a directory unless it is there.
func (j *job) directory(path string, mode os.FileMode) {
	if fi, err := os.Stat(j.at(path)); err == nil && fi.IsDir() {
		return
	}
	j.step(fmt.Sprintf("make directory %s, mode %04o", path, mode), func() error {
		if err := os.MkdirAll(j.at(path), mode); err != nil {
			return fmt.Errorf("make the directory %s: %w", path, err)
		}
		return nil
	})
}

// remove removes a file. That it is not there is no error.
func (j *job) remove(path string) {
	j.step("remove "+path, func() error {
		if err := removeFile(j.at(path)); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		return nil
	})
}

// at is where path is in the system.
func (s *system) at(path string) string { return filepath.Join(s.Root, path) }

// state is what there is of a job.
type state struct {
	files   map[string]string // contents by path, of what is there
	loaded  bool              // the manager knows it
	enabled bool              // it is started at boot, or when the user logs in
	active  bool              // a process runs, or is being started
	pid     int
}

func (s state) installed() bool { return len(s.files) > 0 }

// state looks at the files of the job, and asks its manager. It changes nothing.
func (j *job) state() (state, error) {
	s := state{files: map[string]string{}}
	for _, path := range j.manager.paths() {
		b, err := os.ReadFile(j.at(path))
		if err == nil {
			s.files[path] = string(b)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("read what is installed: %w", err)
		}
	}
	return s, j.manager.ask(&s)
}
