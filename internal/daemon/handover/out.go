// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
)

// An Out collects what is handed over. Its zero value may be used. It is for one goroutine. What cannot be handed over is an error
// of Exec.
type Out struct {
	fds  map[int]bool
	keep []any // whose descriptors are listed: nothing may close them when they are no longer used
	err  error // the first one
}

// FD notes that descriptors survive. The caller keeps them open.
func (o *Out) FD(fds ...int) {
	if o.fds == nil {
		o.fds = map[int]bool{}
	}
	for _, fd := range fds {
		o.fds[fd] = true
	}
}

// Conn notes the descriptor of a connection, a listener or a file, and returns it. Nothing about c changes: an *os.File
// stays as it is, unlike with its Fd.
func (o *Out) Conn(c syscall.Conn) int {
	fd := -1
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(u uintptr) { fd = int(u) })
	}
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("hand over a descriptor: %w", err)
	}
	if o.keep = append(o.keep, c); fd >= 0 {
		o.FD(fd)
	}
	return fd
}

// write makes the manifest, with that state.
func (o *Out) write(state any) (*os.File, error) {
	if o.err != nil {
		return nil, o.err
	}
	for fd := range o.fds {
		if fd <= 2 {
			return nil, fmt.Errorf("write the manifest: descriptor %d is always inherited and cannot be handed over", fd)
		}
	}
	m := manifest{Version: manifestVersion, PID: os.Getpid(), FDs: slices.Collect(maps.Keys(o.fds))}
	b, err := json.Marshal(state)
	if err == nil {
		m.State = b
		b, err = json.Marshal(m)
	}
	if err == nil && len(b) > maxSize {
		err = fmt.Errorf("%d bytes are more than the limit of %d", len(b), maxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	f, err := Memory(b)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	return f, nil
}

// Memory makes a file without a name that holds b, for ReadMemory in another process.
func Memory(b []byte) (*os.File, error) {
	f, err := memoryFile()
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = trusted(int(f.Fd())) // as its reader will ask, when it is too late
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
