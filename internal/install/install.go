// SPDX-License-Identifier: Apache-2.0

// Package install puts the programs at the paths of socket_vmnet, as real files, and takes them away again so that everything is as
// it was: contents, owners, modes, times, links, and what was not there.
//
// Both can be interrupted anywhere, and what is to be done then is always the same: run either of them again. All changes
// are in this order, and each arrow is one rename that lasts:
//
//	what was there → backup.new → backup (with the manifest, which says what was there and what will be)
//	             each new program → its place; the manifest says that it is done
//
//	rolling back: each old program → its place; backup → backup.old, which goes with all directories that were made
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

	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
)

// DefaultPrefix is where Lima looks first.
const DefaultPrefix = "/opt/socket_vmnet"

// targets are what is installed, below the prefix. The program that rolls back is the last to come and to go.
var targets = []string{"libexec/vmnet-helper", "bin/socket_vmnet_client", "bin/socket_vmnet", "bin/socket_vmnet2"}

// Options are for Install and Rollback.
type Options struct {
	Prefix string // absolute; empty: DefaultPrefix
	Root   string // a staged root, above the prefix; empty: the real one
	From   string // Install: a prefix, or a directory with the programs in it; empty: that of this program
	DryRun bool   // look at everything, change nothing

	hook    func(op, path string) error // tests: see disk
	chunk   int                         // likewise
	version string                      // tests: what the programs would say if they were asked
}

// place checks what is common to both.
func (o Options) place() (place, error) {
	p := place{disk: disk{hook: o.hook, chunk: o.chunk}, root: o.Root, prefix: o.Prefix}
	if p.prefix == "" {
		p.prefix = DefaultPrefix
	}
	if strings.HasPrefix(p.prefix, "/") {
		p.prefix = filepath.Clean(p.prefix)
	}
	if p.root == "/" {
		p.root = ""
	}
	if p.root != "" {
		abs, err := filepath.Abs(p.root)
		if err != nil {
			return p, err
		}
		p.root = abs
	}
	for _, dir := range []string{"", "bin", "libexec", backupDir + "/" + filesDir} {
		// A space is for Lima to refuse: it is not safe or unsafe.
		if err := pathrules.Check(filepath.Join(p.prefix, dir), pathrules.Options{Root: p.root, Missing: true, AllowSpace: true}); err != nil && dir != "" {
			return p, err
		} else if err != nil {
			return p, fmt.Errorf("--prefix=%s: %w", p.prefix, err)
		}
	}
	if p.prefix == "/" {
		return p, errors.New("--prefix=/ would mix everything with the system's own; name a directory, as /opt/socket_vmnet")
	}
	if p.root == "" && !o.DryRun && os.Geteuid() != 0 {
		return p, fmt.Errorf("only root can change %s: use sudo", p.prefix)
	}
	return p, nil
}

// A Report is what was done, or what would be.
type Report struct {
	Prefix  string
	Version string
	Files   []Step
	Notes   []string // whole sentences
	Changed bool     // something was, or would be
	Update  bool     // one of our own programs was replaced by another version
}

// A Step is about one path below the prefix.
type Step struct{ Path, What string }

// add makes a step.
func (r *Report) add(path, format string, args ...any) {
	r.Files = append(r.Files, Step{path, fmt.Sprintf(format, args...)})
}

// note adds a sentence.
func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Install puts the programs below the prefix and keeps what was there. The report is of use even with an error.
func Install(ctx context.Context, o Options) (*Report, error) {
	p, err := o.place()
	if err != nil {
		return nil, err
	}
	source, err := findSource(ctx, o.From, o.version, p.root == "")
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		unlock, err := p.lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	r := &Report{Prefix: p.prefix, Version: source.version}
	plan, err := p.plan(source, r)
	switch {
	case err != nil || o.DryRun:
		return r, err
	case r.Changed:
		return r, p.install(source, plan)
	case plan.first:
		return r, p.abandon() // what an interrupted run has left
	}
	return r, errors.Join(p.tidy(), p.sweep())
}

// install does what was planned.
func (p place) install(s *source, plan *plan) error {
	if err := p.backUp(s, plan); err != nil {
		return err
	}
	for _, t := range plan.put {
		if err := p.mkdirAll(filepath.Dir(p.at(t))); err != nil {
			return p.interrupted(err)
		}
		if err := p.copy(s.files[t], p.at(t), s.sums[t], 0o755); err != nil {
			return p.interrupted(err)
		}
	}
	if plan.manifest.Done {
		return nil
	}
	plan.manifest.Done = true
	if err := p.writeManifest(p.at(backupDir), plan.manifest); err != nil {
		return p.interrupted(err)
	}
	return nil
}

// interrupted says what an error in the middle means.
func (p place) interrupted(err error) error {
	return fmt.Errorf("%w: not everything is installed; do the same again once that is put right, or roll back with %s rollback --prefix=%s",
		err, filepath.Join(p.prefix, backupDir, ownCopy), p.prefix)
}

// backUp keeps what was there. Up to its last step nothing that anybody uses has changed.
func (p place) backUp(s *source, pl *plan) (err error) {
	if err := p.prepare(); err != nil {
		return p.giveUp(pl, err)
	}
	if err := p.sweep(); err != nil {
		return p.giveUp(pl, err)
	}
	dir := p.at(backupDir)
	if pl.first {
		dir += ".new"
	}
	if err := p.fill(dir, s, pl); err != nil {
		return p.giveUp(pl, err)
	}
	if pl.first {
		if err := p.rename(dir, p.at(backupDir)); err != nil {
			return p.giveUp(pl, err)
		}
	}
	for _, name := range pl.old {
		if err := p.remove(filepath.Join(p.at(backupDir), name)); err != nil {
			return p.interrupted(err)
		}
	}
	return nil
}

// giveUp undoes what was made for a first backup.
func (p place) giveUp(pl *plan, err error) error {
	if !pl.first {
		return p.interrupted(err)
	}
	if m, merr := p.readManifest(); m != nil || merr != nil { // the last rename was made, but not for good
		return p.interrupted(err)
	}
	if uerr := p.abandon(); uerr != nil {
		return fmt.Errorf("%w: nothing is installed, but %s is left, and could not be removed: %w", err, filepath.Join(p.prefix, stateDir), uerr)
	}
	return fmt.Errorf("%w: nothing was changed", err)
}

// abandon removes everything of a state without a backup.
func (p place) abandon() error {
	if err := p.tidy(); err != nil {
		return err
	}
	if _, err := os.Lstat(p.at(stateDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := p.sweep(); err != nil {
		return err
	}
	return p.leave()
}

// fill puts the backup into its directory, the manifest last.
func (p place) fill(dir string, s *source, pl *plan) error {
	if err := p.mkdirAll(filepath.Join(dir, filesDir)); err != nil {
		return err
	}
	for _, e := range pl.manifest.Entries {
		f, ok := pl.fresh[e.Path]
		if !ok {
			continue
		}
		to := filepath.Join(dir, e.Backup)
		if err := p.mkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		if err := p.duplicate(p.at(e.Path), to, f); err != nil {
			return err
		}
	}
	if err := p.copy(s.files["bin/socket_vmnet2"], filepath.Join(dir, ownCopy), s.sums["bin/socket_vmnet2"], 0o755); err != nil {
		return err
	}
	return p.writeManifest(dir, pl.manifest)
}

// sweep removes what interrupted runs have left in directories that stay.
func (p place) sweep() error {
	for _, dir := range []string{backupDir + ".new", backupDir + ".old"} {
		if err := p.removeAll(p.at(dir), ownCopy); err != nil {
			return err
		}
	}
	for _, dir := range []string{"bin", "libexec", stateDir, backupDir, backupDir + "/" + filesDir + "/bin", backupDir + "/" + filesDir + "/libexec"} {
		entries, err := os.ReadDir(p.at(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if name := e.Name(); strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix) {
				if err := p.removeAll(filepath.Join(p.at(dir), name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// versionTime is how long a program may take to tell its version.
const versionTime = 20 * time.Second

// version asks a program for it.
func version(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s does not run here, so it is of no use: %w", program, err)
	}
	return strings.TrimSpace(string(out)), nil
}
