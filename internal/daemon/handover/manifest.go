// SPDX-License-Identifier: Apache-2.0

// Package handover has a daemon become the program that is now at the path it was started by.
//
//	old image: Find, Check → Out.Conn … → Exec ── descriptors, manifest in an unlinked file ──► Inherited → In.Get, In.File …
//
// Find looks at who may change the new program: every directory on the way, every link, the file itself. Check runs it as a child,
// which reads a copy of the daemon's state and its command line. Exec carries over what the daemon has: open descriptors, which simply
// stay open, and a manifest that says what each of them is.
//
// The process stays the same one: same pid, same parent, same locks, since those belong to the open files. Only the
// descriptors that are listed survive, and no other process can slip a manifest in: it lies in a file without a name that
// belongs to our user, and holds our pid.
package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// manifestVersion is the version of the manifest's own fields. State has its version in its type: a field that is
// not known is ignored, one that is missing is zero.
const manifestVersion = 3

// envName is the environment variable that holds the manifest's descriptor.
const envName = "SOCKET_VMNET2_HANDOFF"

// maxSize of a manifest in bytes. 4096 clients that each leave a frame unfinished in both directions, 102 KiB, fit in, a third
// more as text: no client can prevent an upgrade by that.
const maxSize = 640 << 20

// A manifest is what is written for the new image.
type manifest struct {
	Version int             `json:"version"`
	PID     int             `json:"pid"`
	State   json.RawMessage `json:"state"`
	FDs     []int           `json:"fds"` // all descriptors that are handed over
}

// Inherited returns what the image before this one handed over, and nil if there was none. It is called once, at the start:
// the environment variable that tells of it is removed. An error means that something else set the variable, or that the two
// images do not fit; nothing that the manifest names has been touched then.
func Inherited() (*In, error) {
	text, ok := os.LookupEnv(envName)
	_ = os.Unsetenv(envName)
	g, pid := theGuard(), os.Getpid()
	if g != nil && g.pid == 0 {
		pid = os.Getppid()
		fd, err := g.watch()
		if err != nil {
			return nil, err
		}
		text, ok = strconv.Itoa(fd), true
	}
	if !ok {
		return nil, nil
	}
	i, err := take(text, pid)
	if err != nil {
		return nil, fmt.Errorf("take over from the image before: %w", err)
	}
	if g != nil && g.pid > 0 {
		g.Release()
	}
	return i, nil
}

// take is what process pid hands over by the manifest whose descriptor text names.
func take(text string, pid int) (*In, error) {
	m, err := read(text, pid)
	if err != nil {
		return nil, err
	}
	i := &In{m: m, left: map[int]bool{}}
	i.own()
	return i, nil
}

// read reads the manifest of process pid whose descriptor text names.
func read(text string, pid int) (m manifest, err error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 {
		return m, fmt.Errorf("%s=%q is not a descriptor's number", envName, text)
	}
	b, err := ReadMemory(fd)
	if err != nil {
		return m, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return decode(b, fd, pid)
}

// ReadMemory reads and closes a file that Memory made, in this process or another one of the same user's. What can be anything else is an
// error, and stays open.
func ReadMemory(fd int) ([]byte, error) {
	if err := trusted(fd); err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "memory")
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.NewSectionReader(f, 0, maxSize))
}

// trusted checks that fd is a file that only our user can have made and that no other program can open.
func trusted(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at the manifest: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file")
	case st.Nlink != 0:
		return errors.New("it has a name in the file system")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not to us (user %d)", st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others may write it (mode %#o)", st.Mode&0o7777)
	case st.Size > maxSize:
		return fmt.Errorf("it has %d bytes, more than the limit of %d", st.Size, maxSize)
	}
	return nil
}

// decode reads and checks the manifest of process pid, which descriptor self has.
func decode(b []byte, self, pid int) (m manifest, err error) {
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	switch {
	case m.Version != manifestVersion:
		return m, fmt.Errorf("the manifest has version %d, this program reads version %d", m.Version, manifestVersion)
	case m.PID != pid:
		return m, fmt.Errorf("the manifest is for process %d, this is process %d", m.PID, pid)
	}
	seen := map[int]bool{self: true}
	for _, fd := range m.FDs {
		if fd <= 2 || seen[fd] {
			return m, fmt.Errorf("the manifest lists descriptor %d, which cannot be or is there twice", fd)
		}
		seen[fd] = true
	}
	return m, nil
}

// An In is what the image before this one handed over. It is for one goroutine.
type In struct {
	m    manifest
	left map[int]bool // not taken yet
}

// Get reads the state that was handed over into v.
func (i *In) Get(v any) error {
	if err := json.Unmarshal(i.m.State, v); err != nil {
		return fmt.Errorf("read the state in the manifest: %w", err)
	}
	return nil
}

// File takes descriptor fd over: it belongs to the caller from here on, and children do not inherit it. Each can be taken
// once.
func (i *In) File(fd int) (*os.File, error) {
	if err := i.Take(fd); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("descriptor %d", fd)), nil
}

// Take takes descriptors over for a caller that needs no more than the numbers: all of them, or none.
func (i *In) Take(fds ...int) error {
	for n, fd := range fds {
		if !i.left[fd] || slices.Contains(fds[:n], fd) {
			return fmt.Errorf("take descriptor %d over: it was not handed over, or is taken already", fd)
		}
	}
	for _, fd := range fds {
		delete(i.left, fd)
	}
	return nil
}

// Socket takes descriptor fd over as hostfs.Socket does. The socket's own descriptor has another number.
func Socket[T io.Closer](i *In, fd int) (t T, err error) {
	f, err := i.File(fd)
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }() // the socket has a duplicate
	if t, err = hostfs.Socket[T](f); err != nil {
		return t, fmt.Errorf("take descriptor %d over: %w", fd, err)
	}
	return t, nil
}

// CloseRest closes what was not taken.
func (i *In) CloseRest() {
	for fd := range i.left {
		_ = unix.Close(fd)
	}
	i.left = nil
}

// own makes all descriptors of the manifest ours: children shall not inherit them. One that is not open cannot be taken.
func (i *In) own() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, fd := range i.m.FDs {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err == nil {
			i.left[fd] = true
		}
	}
}
