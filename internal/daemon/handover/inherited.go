// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inherited returns what the image before this one handed over, and nil if there was none. It is called once, at the start:
// the environment variable that tells of it is removed. Who wants to know of stop signals has called signal.Notify before,
// and gets those that have come since the start of this image. An error means that somebody else set the variable, or that the two
// images do not fit; nothing that the manifest names has been touched then.
func Inherited() (*In, error) {
	text, ok := os.LookupEnv(envName)
	if !ok {
		return nil, nil
	}
	_ = os.Unsetenv(envName)
	defer raiseEarly()
	i, err := inherited(text)
	if err != nil {
		return nil, fmt.Errorf("take over from the image before: %w", err)
	}
	return i, nil
}

// inherited reads the manifest whose descriptor text names.
func inherited(text string) (*In, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 {
		return nil, fmt.Errorf("%s=%q is no descriptor's number", envName, text)
	}
	if err := trusted(fd); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "manifest")
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	i := &In{}
	if i.m, err = decode(b); err != nil {
		return nil, err
	}
	if slices.Contains(i.m.FDs, fd) {
		return nil, errors.New("the manifest lists itself")
	}
	return i, i.own()
}

// trusted checks that fd is a file that only our user can have made and nobody can open.
func trusted(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at the manifest: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is no regular file")
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

// decode reads and checks a manifest.
func decode(b []byte) (manifest, error) {
	if len(b) > maxSize {
		return manifest{}, fmt.Errorf("read the manifest: more than %d bytes", maxSize)
	}
	var head struct {
		Version int `json:"version"`
		PID     int `json:"pid"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return manifest{}, fmt.Errorf("read the manifest: %w", err)
	}
	if head.Version != Version {
		return manifest{}, fmt.Errorf("the manifest has version %d, this program reads version %d", head.Version, Version)
	}
	if head.PID != os.Getpid() {
		return manifest{}, fmt.Errorf("the manifest is for process %d, this is process %d", head.PID, os.Getpid())
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return manifest{}, fmt.Errorf("read the manifest: %w", err)
	}
	if len(m.FDs) > maxFDs {
		return manifest{}, fmt.Errorf("the manifest lists %d descriptors, more than the limit of %d", len(m.FDs), maxFDs)
	}
	seen := make(map[int]bool, len(m.FDs))
	for _, fd := range m.FDs {
		if fd <= 2 || seen[fd] {
			return manifest{}, fmt.Errorf("the manifest lists descriptor %d, which cannot be or is there twice", fd)
		}
		seen[fd] = true
	}
	return m, nil
}
