// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Names below a prefix.
const (
	stateDir     = "share/socket_vmnet2"
	backupDir    = stateDir + "/backup"
	placeFile    = "directories.json"
	manifestFile = "manifest.json"
	filesDir     = "files"
	ownCopy      = "socket_vmnet2" // in the backup: the program that can roll back while bin has none
)

// A place is a prefix below a root, and what the first installation found there in the way of directories. It is on record
// from before the first of them is made until after the last one is removed:
//
//	made:    /opt/.socket_vmnet.socket_vmnet2-new/share/socket_vmnet2/directories.json  →  rename to /opt/socket_vmnet
//	removed: /opt/socket_vmnet/share/socket_vmnet2  →  rename to /opt/.socket_vmnet.socket_vmnet2-new, then the empty ones
//
// where /opt/socket_vmnet stands for the first directory that is missing on the way to the state directory.
type place struct {
	disk
	root   string // staged root, "" for the real one
	prefix string // as the user says it
}

// at is a path below the prefix.
func (p place) at(rel string) string { return filepath.Join(p.root, p.prefix, rel) }

// A directories is the record: what is to be removed once it is empty, and the times of what was there.
type directories struct {
	Made  []string         `json:"made"`  // from the root, in the order they are made
	Times map[string]int64 `json:"times"` // of those that were there, from the prefix on: others above may have changed it since
}

// onTheWay are the directories from the root to the state directory, and those for programs, from the root.
func (p place) onTheWay() []string {
	var all []string
	for dir := filepath.Join(p.prefix, stateDir); dir != "/"; dir = filepath.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	for _, t := range targets {
		if dir := filepath.Join(p.prefix, filepath.Dir(t)); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// survey looks which of the directories are there.
func (p place) survey() (directories, error) {
	d := directories{Times: map[string]int64{}}
	for _, dir := range p.onTheWay() {
		fi, err := os.Lstat(filepath.Join(p.root, dir))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.Made = append(d.Made, dir)
		case err != nil:
			return d, err
		case !fi.IsDir():
			return d, fmt.Errorf("%s is not a directory; move it away", dir)
		case within(dir, p.prefix):
			d.Times[dir] = mtime(fi)
		}
	}
	return d, nil
}

// prepare makes the state directory with the record in it, unless it is there.
func (p place) prepare() error {
	if err := p.tidy(); err != nil {
		return err
	}
	if _, err := os.Lstat(p.at(stateDir + "/" + placeFile)); err == nil {
		return nil
	}
	d, err := p.survey()
	if err != nil {
		return err
	}
	record, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	first := p.firstMade(d)
	if first == "" {
		return p.write(p.at(stateDir+"/"+placeFile), record, 0o600)
	}
	temp := tempName(first)
	rest, err := filepath.Rel(first, p.at(stateDir))
	if err != nil {
		return err
	}
	if err := p.mkdirAll(filepath.Join(temp, rest)); err != nil {
		return err
	}
	if err := p.write(filepath.Join(temp, rest, placeFile), record, 0o600); err != nil {
		return err
	}
	return p.rename(temp, first)
}

// firstMade is the topmost of the directories on the way to the state directory that was missing, "" if none was.
func (p place) firstMade(d directories) string {
	for _, dir := range d.Made {
		if within(filepath.Join(p.prefix, stateDir), dir) {
			return filepath.Join(p.root, dir)
		}
	}
	return ""
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !filepath.IsAbs(rel) && (len(rel) < 3 || rel[:3] != "../")
}

// tidy removes what an interrupted run has left beside the directories, and ends the removal of directories that had begun.
func (p place) tidy() error {
	for dir := filepath.Join(p.prefix, stateDir); dir != "/"; dir = filepath.Dir(dir) {
		if err := p.dissolve(tempName(filepath.Join(p.root, dir))); err != nil {
			return err
		}
	}
	return nil
}

// dissolve removes the directories on the record in temp as far as they are empty, and then temp with the record.
func (p place) dissolve(temp string) error {
	if _, err := os.Lstat(temp); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	record, err := readDirectories(filepath.Join(temp, placeFile))
	if err == nil { // without one, nothing had been made yet
		for _, dir := range slices.Backward(record.Made) {
			if err := p.rmdir(filepath.Join(p.root, dir)); err != nil {
				return err
			}
		}
	}
	if err := p.removeAll(temp, placeFile); err != nil {
		return err
	}
	return p.restoreTimes(record)
}

// rmdir removes a directory if it is there and empty.
func (p place) rmdir(dir string) error {
	err := p.remove(dir)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// restoreTimes gives the directories that were there the times that they had.
func (p place) restoreTimes(d directories) error {
	for dir, ns := range d.Times {
		path := filepath.Join(p.root, dir)
		if fi, err := os.Lstat(path); err == nil && mtime(fi) != ns {
			if err := p.setTime(path, ns); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave removes what prepare made, and the directories for programs, as far as they are empty. Nothing else of the state
// directory is there any more.
func (p place) leave() error {
	state := p.at(stateDir)
	record, err := readDirectories(filepath.Join(state, placeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p.tidy()
	}
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(record.Made) {
		if !within(filepath.Join(p.prefix, stateDir), dir) {
			if err := p.rmdir(filepath.Join(p.root, dir)); err != nil {
				return err
			}
		}
	}
	first := p.firstMade(record)
	if empty, err := emptyOf(state, placeFile); err != nil {
		return err
	} else if first == "" || !empty {
		if err := p.remove(filepath.Join(state, placeFile)); err != nil {
			return err
		}
		return p.restoreTimes(record)
	}
	temp := tempName(first)
	if err := p.rename(state, temp); err != nil {
		return err
	}
	return p.dissolve(temp)
}

func readDirectories(path string) (directories, error) {
	var d directories
	b, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(b, &d); err != nil {
			err = fmt.Errorf("%s is damaged: %w", path, err)
		}
	}
	return d, err
}

// lockFile is where only root can take the lock. It is not below the prefix, which comes and goes.
const lockFile = "/var/run/socket_vmnet2-install.lock"

// lock keeps others out: on a file, or for a staged root on that directory, which gets no file of ours.
func (p place) lock() (unlock func(), err error) {
	path, flags := lockFile, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW
	if p.root != "" {
		path, flags = p.root, os.O_RDONLY
	}
	f, err := os.OpenFile(path, flags|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another install or rollback is at work: try again when it has ended")
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
