// SPDX-License-Identifier: Apache-2.0

// Package state keeps what a network needs to come back as it was after a restart of the daemon: DHCP leases, the
// identity of its vmnet interfaces, its subnet. There is one file per network, in JSON, named by the path of the network's
// socket.
//
// The daemon never needs it: a file that is missing, damaged, foreign or from another version is ignored with one
// warning, and a disk that is full or read-only costs one warning too. Root reads and writes only where nobody else can
// put a file or a link in the way.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// saveDelay is how long changes are gathered before they are written.
const saveDelay = time.Second

// Options say where the file is.
type Options struct {
	// Dir is from Dir, empty = keep nothing. It is made if need be. A relative path counts from the working directory.
	Dir string
	// Socket is the absolute path of the network's socket. The caller holds the socket's lock, so nobody else uses the
	// file.
	Socket string
	Log    *slog.Logger
}

// A File is a network's state. Its methods may be called from several goroutines.
type File struct {
	path string // empty = nothing is kept
	log  *slog.Logger
	// write replaces the file; tests change it.
	write func(path string, b []byte) error

	loaded content

	mu       sync.Mutex
	snapshot func() []Lease // of the latest change, nil = none yet
	id       identity
	dirty    bool // the latest change is not written, or could not be
	armed    bool // timer runs
	timer    *time.Timer
	closed   bool
	warned   bool // the last write failed and that was logged

	writing sync.Mutex // held while the file is written, after mu where both are needed
}

// Open reads the state of a network. It never fails: without a usable file the state is empty, without a usable directory
// it is not kept, and the logger has one warning.
func Open(o Options) *File {
	f := &File{log: o.Log, write: replace}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		return f
	}
	euid := os.Geteuid()
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		dir, err = trustDir(dir, euid)
	}
	if err != nil {
		f.log.Warn("state is not kept, guests may get other addresses after a restart; use --state-dir",
			"dir", o.Dir, "error", err)
		return f
	}
	f.path = filepath.Join(dir, FileName(o.Socket))
	b, err := readTrusted(f.path, euid)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err == nil {
		f.loaded, err = decode(b)
	}
	f.id = f.loaded.id
	if err != nil {
		f.log.Warn("state file ignored, guests may get other addresses", "path", f.path, "error", err)
	}
	return f
}

// Path is where the state is kept, empty when it is not.
func (f *File) Path() string { return f.path }

// Leases are the leases as Open found them.
func (f *File) Leases() []Lease { return slices.Clone(f.loaded.leases) }

// SaveLeases tells that the leases changed. They are written within a second, or by Close: snapshot is called then, from
// another goroutine or from Close, and returns all leases as they are at that time.
func (f *File) SaveLeases(snapshot func() []Lease) {
	f.change(func() { f.snapshot = snapshot })
}

// change makes a change and sees to it that it is written.
func (f *File) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" || f.closed {
		return
	}
	do()
	f.dirty = true
	if !f.armed {
		f.armed = true
		f.timer = time.AfterFunc(saveDelay, f.save)
	}
}

// save writes the state if it changed. It is the timer's function; Close calls it too.
func (f *File) save() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	f.armed = false
	if !f.dirty {
		f.mu.Unlock()
		return
	}
	f.dirty = false // changes from here on are for the next time
	snapshot, id := f.snapshot, f.id
	f.mu.Unlock()

	leases := f.loaded.leases
	if snapshot != nil {
		leases = snapshot()
	}
	b, err := encode(content{leases: leases[:min(len(leases), maxLeases)], id: id, extra: f.loaded.extra})
	if err == nil {
		err = f.write(f.path, b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = f.dirty || err != nil // the next change, or Close, tries again
	if err != nil && !f.warned {
		f.log.Warn("state could not be saved, guests may get other addresses after a restart", "path", f.path, "error", err)
	}
	f.warned = err != nil
}

// Close writes what has changed. It returns when nothing is being written any more; later changes are ignored.
func (f *File) Close() error {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.save()
	return nil
}

// Check tells whether this program can read content, which is that of a File. Its error says what it cannot read.
func Check(content []byte) error {
	_, err := decode(content)
	return err
}

// Content is what is in the file now, as it was last written; empty if there is none or nothing is kept. It is checked as
// in Open.
func (f *File) Content() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	b, err := readTrusted(f.path, os.Geteuid())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return b, nil
}
