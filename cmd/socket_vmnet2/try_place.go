// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
)

// tryName is the directory in which each run has one of its own: 1, 2, ...
const tryName = "socket_vmnet2-try"

// tryBases are the paths at which that directory may be, the best first. Root heeds no environment. In /tmp the name has the
// user's number: who makes it first has it.
func tryBases(goos string, euid int) (bases []string) {
	if euid == 0 {
		run := "/run"
		if goos == "darwin" {
			run = "/var/run"
		}
		bases = append(bases, filepath.Join(run, tryName))
	} else if dir := inherit.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && isPrivate(dir, euid) {
		bases = append(bases, filepath.Join(dir, tryName))
	}
	bases = append(bases, filepath.Join("/tmp", tryName+"-"+strconv.Itoa(euid)))
	return slices.DeleteFunc(bases, func(base string) bool { return len(longestPath(filepath.Join(base, "999"))) > compat.MaxSocketPath })
}

// isPrivate reports whether dir is a directory of this user that nobody else may enter.
func isPrivate(dir string, euid int) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o077 == 0 && ownerOf(info) == euid
}

// ownerOf is the user that a file belongs to, -1 if that is not known.
func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// longestPath is the path of the socket below dir that has the longest.
func longestPath(dir string) string {
	return filepath.Join(dir, trySocket) + ".d" + compat.LongestRuntimePath
}

// A tryPlace is where a run has its socket, and the subnet that other runs leave to it.
type tryPlace struct {
	subnet netip.Prefix // invalid in bridged mode
	base   string
	claim  *tryDir // below base; nil if there is none: only with --dir
	dir    *tryDir // of the socket: claim, or --dir
}

type tryPlaceOptions struct {
	Dir    string   // --dir; empty: below the base
	Bases  []string // the first that can be had is taken
	Root   bool     // others are to reach the socket: its group decides who
	Log    *slog.Logger
	Choose func(taken []netip.Prefix) (netip.Prefix, error)
}

func (o tryPlaceOptions) mode() fs.FileMode {
	if o.Root {
		return 0o711
	}
	return 0o700
}

// openTryPlace makes the directory and claims a subnet. What runs that were killed have left is removed.
func openTryPlace(ctx context.Context, o tryPlaceOptions) (_ *tryPlace, err error) {
	base, err := openTryBases(ctx, o)
	switch {
	case err == nil:
		defer base.Close()
	case o.Dir == "" || ctx.Err() != nil:
		return nil, err
	default:
		o.Log.Warn("another socket_vmnet2 try may choose the same network", "error", err)
	}
	p := &tryPlace{}
	defer func() {
		if err != nil {
			_ = p.remove()
		}
	}()
	var taken []netip.Prefix
	if base != nil {
		taken = base.sweep()
	}
	if p.subnet, err = o.Choose(taken); err != nil {
		return nil, err
	}
	if base != nil {
		p.base = base.path
		if p.claim, err = base.claim(o, p.subnet); err != nil {
			return nil, err
		}
		p.dir = p.claim
	}
	if o.Dir != "" {
		if p.dir, err = openTryDir(o.Dir, o.mode()); err != nil {
			p.dir = nil
			return nil, fmt.Errorf("--dir=%s: %w", o.Dir, err)
		}
	}
	return p, nil
}

func (p *tryPlace) socket() string { return filepath.Join(p.dir.path, trySocket) }
func (p *tryPlace) state() string  { return filepath.Join(p.dir.path, tryState) }

// Close removes what was made.
func (p *tryPlace) Close() error {
	if p.base == "" {
		return p.remove()
	}
	// Locked, so that nobody else looks at what is being removed. If that cannot be had, the base stays.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	base, err := openTryBase(ctx, p.base, 0)
	if err == nil {
		defer base.Close()
	}
	return p.remove()
}

func (p *tryPlace) remove() (err error) {
	if p.dir != nil && p.dir != p.claim {
		err = p.dir.Close()
	}
	if p.claim != nil {
		err = errors.Join(err, p.claim.Close())
	}
	return err
}

// A tryBase is the directory of all runs of a user, locked: one at a time looks around and chooses.
type tryBase struct {
	path string
	root *os.Root
	lock *os.File
}

// openTryBases opens the first of the bases that can be had.
func openTryBases(ctx context.Context, o tryPlaceOptions) (*tryBase, error) {
	var errs []error
	for _, path := range o.Bases {
		b, err := openTryBase(ctx, path, o.mode())
		if err == nil {
			return b, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no place for the socket, name one with --dir=DIR: %w", errors.Join(errs...))
}

// openTryBase opens the directory at path and waits for its lock. With a mode the directory is made where it is missing.
func openTryBase(ctx context.Context, path string, mode fs.FileMode) (*tryBase, error) {
	for {
		if mode != 0 {
			if err := makeDir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
		b, err := lockTryBase(path)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, errTryAgain) && !(mode != 0 && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		case <-time.After(tryPoll):
		}
	}
}

// tryPoll is how often a lock is asked for.
const tryPoll = 20 * time.Millisecond

// errTryAgain says that somebody has the lock, or has just removed what was being opened.
var errTryAgain = errors.New("in use")

func lockTryBase(path string) (*tryBase, error) {
	root, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	lock, err := takeLock(root, os.O_CREATE)
	if err == nil && !isAt(root, path) {
		_ = lock.Close()
		err = errTryAgain
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &tryBase{path: path, root: root, lock: lock}, nil
}

// sweep removes what killed runs have left, and returns the subnets of those that run.
func (b *tryBase) sweep() (taken []netip.Prefix) {
	for _, name := range namesIn(b.root) {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		lock, err := lockIn(b.root, name)
		switch {
		case errors.Is(err, errTryAgain):
			text, _ := b.root.ReadFile(filepath.Join(name, trySubnet))
			if p, err := netip.ParsePrefix(strings.TrimSpace(string(text))); err == nil {
				taken = append(taken, p)
			}
		case err == nil, errors.Is(err, fs.ErrNotExist): // killed before it had made the lock: nobody else is at it
			_ = b.root.RemoveAll(name)
			if lock != nil {
				_ = lock.Close()
			}
		}
	}
	return taken
}

// claim makes the directory of this run, under the first free number.
func (b *tryBase) claim(o tryPlaceOptions, subnet netip.Prefix) (*tryDir, error) {
	names := namesIn(b.root)
	n := 1
	for slices.Contains(names, strconv.Itoa(n)) {
		n++
	}
	d, err := openTryDir(filepath.Join(b.path, strconv.Itoa(n)), o.mode())
	if err == nil && subnet.IsValid() {
		err = d.root.WriteFile(trySubnet, []byte(subnet.String()+"\n"), 0o600)
	}
	if err != nil && d != nil {
		_ = d.Close()
	}
	return d, err
}

// Close unlocks the base, and removes it if there is no run left.
func (b *tryBase) Close() {
	if names := namesIn(b.root); len(names) == 1 && names[0] == tryLock {
		_ = b.root.Remove(tryLock)
		_ = unix.Rmdir(b.path)
	}
	_ = b.lock.Close()
	_ = b.root.Close()
}
