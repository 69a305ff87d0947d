// SPDX-License-Identifier: Apache-2.0

// Package setup installs: it puts the programs at the paths of socket_vmnet and takes them away again, and makes the daemon a job
// of the service manager.
//
// Install puts programs as real files, and Rollback puts everything back as it was: contents, owners, modes, times, links, and what was
// not there. What was there is kept in a backup below the prefix, with a manifest of what is to be put back:
//
//	each old program → a second name in the backup; the manifest → the backup; each new program → its place
//
//	rolling back: each old program → its place; the backup and all directories that were made go
//
// Every arrow to a place that is in use is one rename. After an interruption either command can be run again: without a manifest
// nothing was changed, and with one both know what was there.
//
// A job of launchd or systemd is, for the default prefix, byte for byte what lies in etc/launchd and etc/systemd.
// github.com/kardianos/service starts and stops jobs. The rest is done here: the files, which it would write in another form and
// not change; the question what there is, since it asks launchd about the caller's own jobs only; and systemd's sockets, of which
// it knows nothing. Whatever changes something is a step, which a dry run prints and a real one makes.
package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

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
	Prefix string // absolute; empty: find.DefaultPrefix
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
	p.prefix = cmp.Or(o.Prefix, find.DefaultPrefix)
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

// begin checks the place, has all that this process makes be for all users to read and for its owner alone to change, and, unless
// nothing is changed, keeps others out: by a lock on a file, or for a staged root on that directory, which gets no file of ours.
func (o Options) begin() (place, *os.File, error) {
	syscall.Umask(0o022)
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
	if err == nil {
		m, err = p.plan(m, source, r)
	}
	if err != nil || o.DryRun || !r.Changed {
		return r, err
	}
	err = p.keep(m, source)
	if err != nil && !p.exists(manifestFile) {
		return r, errors.Join(fmt.Errorf("%w: nothing was changed", err), p.forget(m))
	}
	for _, e := range m.Entries {
		if e.put && err == nil {
			err = makeFile(p.at(e.Path), 0o755, source.files[e.Path])
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: not everything is installed; do the same again once that is put right, or roll back with %s rollback --prefix=%s",
			err, filepath.Join(p.prefix, ownCopy), p.prefix)
	}
	return r, err
}

// keep makes the backup. Up to its last step, the manifest, nothing that is in use has changed.
func (p place) keep(m *manifest, s *source) error {
	if !p.exists(manifestFile) { // of a run that was interrupted
		if err := os.RemoveAll(p.at(backupDir)); err != nil {
			return err
		}
	}
	for _, e := range m.Entries {
		if e.save {
			if err := duplicate(p.at(e.Path), p.backup(e), e.Before); err != nil {
				return err
			}
		}
	}
	if err := makeFile(p.at(ownCopy), 0o755, s.files["bin/socket_vmnet2"]); err != nil {
		return err
	}
	return p.writeManifest(m)
}

// A source is the programs to install.
type source struct {
	files   map[string][]byte // by target
	version string
}

// findSource reads the programs. They must run if they are for this machine, which those for a staged root need not be.
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
	s, program := &source{files: map[string][]byte{}, version: "socket_vmnet2"}, ""
	for _, t := range targets {
		path, content, err := readProgram(from, t)
		if err != nil {
			return nil, err
		}
		s.files[t], program = content, path
	}
	if !bytes.Equal(s.files["bin/socket_vmnet"], s.files["bin/socket_vmnet2"]) {
		return nil, fmt.Errorf("socket_vmnet and %s differ, but are one program under two names: %s is half installed, or socket_vmnet's own; build it again", program, from)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := find.RunProgram(ctx, program, "--version")
	if err == nil {
		s.version = strings.TrimSpace(string(out))
	} else if try {
		return nil, fmt.Errorf("%s does not run here, so it is of no use: %w", program, err)
	}
	return s, nil
}

// readProgram reads a target from a prefix, or from a directory that has all of them.
func readProgram(where, target string) (path string, content []byte, err error) {
	for _, rel := range []string{target, filepath.Base(target)} {
		path, err = filepath.Abs(filepath.Join(where, rel))
		if err == nil {
			content, err = os.ReadFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR): // bin/socket_vmnet2 in a prefix of the name socket_vmnet2
			continue
		case err == nil && len(content) == 0:
			err = fmt.Errorf("%s is empty: a build or an installation was interrupted; do it again", path)
		}
		return path, content, err
	}
	if target == "bin/socket_vmnet" { // the same program, under the name that is there in any case
		return readProgram(where, "bin/socket_vmnet2")
	}
	return "", nil, fmt.Errorf("%s has neither %s nor %s: name a directory that has all programs with --from, as bin after make",
		where, target, filepath.Base(target))
}
