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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// Names below a prefix.
const (
	stateDir  = "share/socket_vmnet2"
	backupDir = stateDir + "/backup"
	ownCopy   = backupDir + "/socket_vmnet2" // the program that can roll back while bin has none
)

// targets are what is installed, below the prefix. The program that rolls back is the last to come and to go.
var targets = []string{"libexec/vmnet-helper", "bin/socket_vmnet_client", "bin/socket_vmnet", "bin/socket_vmnet2"}

// Options are for Install and Rollback.
type Options struct {
	Prefix string // absolute; empty: find.DefaultPrefix
	Root   string // a staged root, above the prefix; empty: the real one
	From   string // Install: a prefix, or a directory with the programs in it; empty: that of this program
	DryRun bool   // look at everything, change nothing
	Out    io.Writer
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

// announce prints what is going to be done.
func (o Options) announce(m *manifest, head string, args ...any) {
	if o.DryRun {
		head += ", if it were not a dry run"
	}
	fmt.Fprintf(o.Out, head+":\n", args...)
	for _, e := range m.Entries {
		fmt.Fprintf(o.Out, "  %-24s %s\n", e.Path, e.what)
	}
}

// Install puts the programs below the prefix, keeps what was there, and tells what to do then.
func Install(ctx context.Context, o Options) error {
	p, lock, err := o.begin()
	if err != nil {
		return err
	}
	defer lock.Close()
	source, err := findSource(ctx, o.From, p.root == "")
	if err != nil {
		return err
	}
	m, err := p.readManifest()
	if err == nil {
		m, err = p.plan(m, source)
	}
	if err != nil {
		return err
	}
	o.announce(m, "Install %s below %s", source.version, p.prefix)
	if !slices.ContainsFunc(m.Entries, func(e *entry) bool { return e.put }) {
		if !p.exists(manifestFile) {
			fmt.Fprintln(o.Out, "All of it is there already, byte for byte, and nothing was there to keep: there is nothing to roll back.")
		}
		return nil
	}
	if !o.DryRun {
		if err := p.put(m, source); err != nil {
			return err
		}
	}
	program := printable.Quote(filepath.Join(p.prefix, "bin/socket_vmnet2"))
	fmt.Fprintf(o.Out, "What was there before is kept in %s.\n\nNow\n%s", filepath.Join(p.prefix, backupDir), p.restartLines(ctx))
	if m.update {
		fmt.Fprintf(o.Out, "  or, for a daemon of socket_vmnet2's, without losing a client: sudo %s upgrade SOCKET\n", program)
	}
	if strings.Contains(p.prefix, " ") {
		fmt.Fprintln(o.Out, "  Lima takes no program from a path with a space: its networks cannot use these.")
	}
	back := program + " rollback"
	if p.prefix != find.DefaultPrefix {
		back += " --prefix=" + printable.Quote(p.prefix)
	}
	_, err = fmt.Fprintf(o.Out, "To go back: sudo %s\n", back)
	return err
}

// restartLines are about what runs from the prefix: it goes on as the program that it was until it is started again.
func (p place) restartLines(ctx context.Context) (lines string) {
	there := find.LookAtJobs(ctx, find.System{Root: p.root})
	for _, j := range there.Jobs {
		if strings.HasPrefix(j.Program, p.prefix+"/") {
			lines += fmt.Sprintf("  start what %s runs anew: sudo launchctl kickstart -k %s\n", j.Path, printable.Quote(j.Target()))
		}
	}
	for _, u := range there.Units {
		if strings.HasPrefix(u.Program, p.prefix+"/") {
			lines += fmt.Sprintf("  start what %s runs anew: sudo systemctl restart %s\n", u.Path, printable.Quote(u.Name))
		}
	}
	if lines == "" {
		lines = "  no job of launchd or systemd runs a program from there; a daemon that was started by hand goes on as it is until it is stopped\n"
	}
	if runtime.GOOS != "darwin" && p.root == "" {
		return lines
	}
	return lines + "  Lima's own networks (lima: in lima.yaml): nothing to change; the daemon is the one that is there now after the last instance on its network was\n" +
		"  stopped and one is started: limactl stop NAME && limactl start NAME\n"
}

// put makes the backup and puts the programs in their places.
func (p place) put(m *manifest, s *source) error {
	err := p.keep(m, s)
	if err != nil && !p.exists(manifestFile) {
		return errors.Join(fmt.Errorf("%w: nothing was changed", err), p.forget(m))
	}
	for _, e := range m.Entries {
		if e.put && err == nil {
			err = makeFile(p.at(e.Path), 0o755, s.files[e.Path])
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: not everything is installed; do the same again once that is put right, or roll back with %s rollback --prefix=%s",
			err, filepath.Join(p.prefix, ownCopy), p.prefix)
	}
	return err
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
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replace(p.at(manifestFile), 0o644, append(b, '\n'))
}
