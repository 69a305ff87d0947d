// SPDX-License-Identifier: Apache-2.0

// Package install puts the programs at the paths of socket_vmnet, as real files, and takes them away again so that everything is as
// it was: contents, owners, modes, times, links, and what was not there.
//
// What was there is kept in a backup below the prefix, with a manifest of what is to be put back:
//
//	each old program → a second name in the backup; the manifest → the backup; each new program → its place
//
//	rolling back: each old program → its place; the backup and all directories that were made go
//
// Every arrow to a place that is in use is one rename. After an interruption either command can be run again: without a manifest
// nothing was changed, and with one both know what was there.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// DefaultPrefix is where Lima looks first.
const DefaultPrefix = "/opt/socket_vmnet"

// Names below a prefix.
const (
	stateDir  = "share/socket_vmnet2"
	backupDir = stateDir + "/backup"
	ownCopy   = backupDir + "/socket_vmnet2" // the program that can roll back while bin has none
)

// targets are what is installed, below the prefix. The program that rolls back is the last to come and to go.
var targets = []string{"libexec/vmnet-helper", "bin/socket_vmnet_client", "bin/socket_vmnet", "bin/socket_vmnet2"}

// Options are for Install, Rollback and Jobs.
type Options struct {
	Prefix string // absolute; empty: DefaultPrefix
	Root   string // a staged root, above the prefix; empty: the real one
	From   string // Install: a prefix, or a directory with the programs in it; empty: that of this program
	DryRun bool   // look at everything, change nothing
}

// A place is a prefix below a root.
type place struct {
	root   string // staged root, "" for the real one
	prefix string // as the user says it
}

// at is a path below the prefix.
func (p place) at(rel string) string { return filepath.Join(p.root, p.prefix, rel) }

// place checks what the commands have in common.
func (o Options) place() (p place, err error) {
	p.prefix = o.Prefix
	if p.prefix == "" {
		p.prefix = DefaultPrefix
	}
	if strings.HasPrefix(p.prefix, "/") {
		p.prefix = filepath.Clean(p.prefix)
	}
	if o.Root != "" && o.Root != "/" {
		if p.root, err = filepath.Abs(o.Root); err != nil {
			return p, err
		}
	}
	for _, dir := range []string{"", "bin", "libexec", backupDir} {
		// A space is for Lima to refuse: it is not safe or unsafe.
		if err := hostfs.Check(filepath.Join(p.prefix, dir), hostfs.Options{Root: p.root, Missing: true, AllowSpace: true}); err != nil {
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

// lockFile is where only root can take the lock. It is not below the prefix, which comes and goes.
const lockFile = "/var/run/socket_vmnet2-install.lock"

// begin checks the place and, unless nothing is changed, keeps others out: by a lock on a file, or for a staged root on that directory,
// which gets no file of ours.
func (o Options) begin() (place, *os.File, error) {
	p, err := o.place()
	if err != nil || o.DryRun {
		return p, nil, err // a nil file can be closed
	}
	path, flags := lockFile, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW
	if p.root != "" {
		path, flags = p.root, os.O_RDONLY
	}
	f, err := os.OpenFile(path, flags|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return p, nil, fmt.Errorf("lock: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return p, nil, errors.New("another install or rollback is at work: try again when it has ended")
	}
	return p, f, nil
}

// A Report is what was done, or what would be.
type Report struct {
	Prefix  string
	Version string
	Files   []step
	Notes   []string // whole sentences
	Changed bool     // something was, or would be
	Update  bool     // one of our own programs was replaced by another version
}

// A step is about one path below the prefix.
type step struct{ Path, What string }

func (r *Report) add(path, format string, args ...any) {
	r.Files = append(r.Files, step{path, fmt.Sprintf(format, args...)})
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Install puts the programs below the prefix and keeps what was there. The report is of use even with an error.
func Install(ctx context.Context, o Options) (*Report, error) {
	p, lock, err := o.begin()
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	source, err := findSource(ctx, o.From, p.root == "")
	if err != nil {
		return nil, err
	}
	r := &Report{Prefix: p.prefix, Version: source.version}
	m, err := p.readManifest()
	if err != nil {
		return r, err
	}
	plan, err := p.plan(m, source, r)
	if err != nil || o.DryRun || !r.Changed {
		return r, err
	}
	err = p.keep(plan, source)
	if err != nil && !p.exists(manifestFile) {
		return r, errors.Join(fmt.Errorf("%w: nothing was changed", err), p.forget(plan.manifest))
	}
	for _, t := range plan.put {
		if err == nil {
			err = copyFile(source.files[t], p.at(t), source.sums[t])
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: not everything is installed; do the same again once that is put right, or roll back with %s rollback --prefix=%s",
			err, filepath.Join(p.prefix, ownCopy), p.prefix)
	}
	return r, err
}

// keep makes the backup. Up to its last step, the manifest, nothing that is in use has changed.
func (p place) keep(pl *plan, s *source) error {
	if pl.first && p.exists(backupDir) { // of a run that was interrupted
		if err := os.RemoveAll(p.at(backupDir)); err != nil {
			return err
		}
	}
	for _, e := range pl.fresh {
		if err := duplicate(p.at(e.Path), p.at(filepath.Join(backupDir, e.Backup)), e.Before); err != nil {
			return err
		}
	}
	const own = "bin/socket_vmnet2"
	if err := copyFile(s.files[own], p.at(ownCopy), s.sums[own]); err != nil {
		return err
	}
	if err := p.writeManifest(pl.manifest); err != nil {
		return err
	}
	for _, name := range pl.old {
		_ = os.Remove(p.at(filepath.Join(backupDir, name))) // one that is left goes with the backup
	}
	return nil
}

// forget removes the backup and, as far as they are empty, the directories that were made, and gives the others their times again.
func (p place) forget(m *manifest) error {
	for _, t := range targets {
		_ = os.Remove(tempName(p.at(t))) // of a run that was interrupted
	}
	// The manifest and the program go last: they are what an interrupted rollback is ended with.
	for _, rel := range []string{filesDir, backupDir} {
		if err := os.RemoveAll(p.at(rel)); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(m.Made) {
		_ = os.Remove(filepath.Join(p.root, dir)) // one with other files in it stays
	}
	for dir, ns := range m.Times {
		if err := setTime(filepath.Join(p.root, dir), ns); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
