// SPDX-License-Identifier: Apache-2.0

// Package state keeps what a network needs to come back as it was after a restart of the daemon: DHCP leases, the
// identity of its vmnet interfaces, its subnet. There is one file per network, in JSON, named by the path of the network's
// socket.
//
// The daemon never needs it: a file that is missing, damaged, foreign or from another version is ignored with one
// warning, and a disk that is full or read-only costs one warning too. Root reads and writes only where no other user can
// put a file or a link in the way.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// saveDelay is how long changes are gathered before they are written.
const saveDelay = time.Second

// Options say where the file is.
type Options struct {
	// Dir is from Dir, empty = keep nothing. It is made if need be. A relative path counts from the working directory.
	Dir string
	// Socket is the absolute path of the network's socket. The caller holds the socket's lock, so no other daemon uses the
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

	mu       sync.Mutex
	now      content        // as Open found it, but for what was saved of the identity
	snapshot func() []Lease // of the latest change, nil = none yet
	dirty    bool           // the latest change is not written, or could not be
	timer    *time.Timer    // runs save; nil = none
	closed   bool
	warned   bool // the last write failed and that was logged

	writing sync.Mutex // held while the file is written, before mu where both are needed
}

// Open reads the state of a network. It never fails: without a usable file the state is empty, without a usable directory
// it is not kept, and the logger has one warning.
func Open(o Options) *File {
	f := &File{log: o.Log, write: replace}
	if o.Dir == "" {
		return f
	}
	euid := os.Geteuid()
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		dir, err = hostfs.PrivateDir(dir, euid)
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
		f.now, err = decode(b)
	}
	if err != nil {
		f.log.Warn("state file ignored, guests may get other addresses", "path", f.path, "error", err)
	}
	return f
}

// Path is where the state is kept, empty when it is not.
func (f *File) Path() string { return f.path }

// Leases are the leases as Open found them.
func (f *File) Leases() []Lease { return slices.Clone(f.now.Leases) }

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
	if f.timer == nil {
		f.timer = time.AfterFunc(saveDelay, f.save)
	}
}

// save writes the state if it changed. It is the timer's function; Close calls it too.
func (f *File) save() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	dirty := f.dirty
	f.timer, f.dirty = nil, false // changes from here on are for the next time
	f.mu.Unlock()
	if !dirty {
		return
	}
	b, err := f.Content()
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

// Content is what the file is to hold now; empty if nothing is kept. The leases are asked for without a lock, as what has them may be
// telling of a change.
func (f *File) Content() ([]byte, error) {
	if f.path == "" {
		return nil, nil
	}
	f.mu.Lock()
	snapshot, c := f.snapshot, f.now
	f.mu.Unlock()
	if snapshot != nil {
		c.Leases = snapshot()
	}
	c.Leases = c.Leases[:min(len(c.Leases), maxLeases)]
	return encode(c)
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

// AnchorID is the UUID of the network's first interface, false when none is known.
func (f *File) AnchorID() ([16]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Anchor, f.now.Anchor != uuid{}
}

// SaveAnchorID tells what AnchorID is from now on. It is written as SaveLeases does.
func (f *File) SaveAnchorID(id [16]byte) error {
	if id == [16]byte{} {
		return errors.New("save interface id: it is null")
	}
	f.change(func() { f.now.Anchor = id })
	return nil
}

// Subnet is the network's IPv4 subnet, masked, false when none is known.
func (f *File) Subnet() (netip.Prefix, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Subnet, f.now.Subnet.IsValid()
}

// SaveSubnet tells what Subnet is from now on. It is written as SaveLeases does.
func (f *File) SaveSubnet(p netip.Prefix) error {
	if err := checkSubnet(p); err != nil {
		return fmt.Errorf("save subnet: %w", err)
	}
	f.change(func() { f.now.Subnet = p })
	return nil
}

// Check tells whether this program can read content, which is that of a File. Its error says what it cannot read.
func Check(content []byte) error {
	_, err := decode(content)
	return err
}

// readTrusted reads a regular file that belongs to euid and that no other user can write. No link is followed, and nothing
// that opening or reading could hang on is waited for.
func readTrusted(path string, euid int) ([]byte, error) {
	f, err := hostfs.Place{Name: path}.Open(unix.O_RDONLY | unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := hostfs.NodeOf(f)
	switch {
	case err != nil:
		return nil, err
	case n.Kind() != unix.S_IFREG:
		return nil, fmt.Errorf("read %s: not a regular file", path)
	case int(n.UID) != euid:
		return nil, fmt.Errorf("read %s: it belongs to user %d: others could change it", path, n.UID)
	case n.Mode&0o022 != 0:
		return nil, fmt.Errorf("read %s: mode %#o: others could change it", path, n.Mode&0o7777)
	}
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// replace writes b to path, all of it or nothing: a temporary file beside it, then renamed. It is not flushed to the disk:
// that took up to 1.6 s on a busy one, a stop of the daemon has two seconds, and a crash of the machine ends the guests too.
func replace(path string, b []byte) error {
	tmp := path + ".tmp"
	_ = os.Remove(tmp) // of a crash
	err := os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = os.Chmod(tmp, 0o600) // whatever the umask is
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

// program is the name of the directory that holds the files, in a directory that others use too.
const program = "socket_vmnet2"

// errNoDir is returned by Dir when nothing tells where state may be kept.
var errNoDir = errors.New("choose state directory: neither XDG_STATE_HOME nor HOME is set; use --state-dir")

// Dir chooses the directory for the files of a daemon of euid:
//
//   - given, which is --state-dir's;
//   - the first directory of $STATE_DIRECTORY, which systemd sets; inherit.DropUnheeded removes one that is not systemd's;
//   - for root /var/db/socket_vmnet2 on macOS, else /var/lib/socket_vmnet2;
//   - for a user ~/Library/Application Support/socket_vmnet2 on macOS, else socket_vmnet2 in $XDG_STATE_HOME or
//     ~/.local/state.
func Dir(given, goos string, euid int, getenv func(string) string) (string, error) {
	if given != "" {
		return given, nil
	}
	systemd, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	xdg, home := getenv("XDG_STATE_HOME"), getenv("HOME")
	switch root, mac := euid == 0, goos == "darwin"; {
	case filepath.IsAbs(systemd):
		return systemd, nil
	case root && mac:
		return "/var/db/" + program, nil
	case root:
		return "/var/lib/" + program, nil
	case !mac && filepath.IsAbs(xdg):
		return filepath.Join(xdg, program), nil
	case !filepath.IsAbs(home):
		return "", errNoDir
	case mac:
		return filepath.Join(home, "Library", "Application Support", program), nil
	}
	return filepath.Join(home, ".local", "state", program), nil
}

// FileName is the name of a network's file: the SHA-256 of the absolute path of its socket.
func FileName(socketPath string) string {
	sum := sha256.Sum256([]byte(socketPath))
	return hex.EncodeToString(sum[:])
}
