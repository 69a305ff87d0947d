// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// An Out collects what is handed over. Its zero value may be used. It is for one goroutine.
type Out struct {
	From string // version of this image

	sections map[string]json.RawMessage
	fds      []int
	listed   map[int]bool   // what is in fds
	keep     []any          // whose descriptors are listed: nothing may close them when they are no longer used
	came     chan os.Signal // stop signals since Watch; nil without
}

// FD notes that descriptor fd survives, and returns it. The caller keeps it open. A negative one stands for none.
func (o *Out) FD(fd int) int {
	if fd >= 0 && !o.listed[fd] {
		if o.listed == nil {
			o.listed = map[int]bool{}
		}
		o.listed[fd] = true
		o.fds = append(o.fds, fd)
	}
	return fd
}

// Conn notes the descriptor of a connection, a listener or a file, and returns it. Nothing about c changes: an *os.File
// stays as it is, unlike with its Fd.
func (o *Out) Conn(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("hand over a descriptor: %w", err)
	}
	fd := -1
	if err := raw.Control(func(u uintptr) { fd = int(u) }); err != nil {
		return -1, fmt.Errorf("hand over a descriptor: %w", err)
	}
	o.keep = append(o.keep, c)
	return o.FD(fd), nil
}

// Put writes v as section, in place of what was there.
func (o *Out) Put(section string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write section %s of the manifest: %w", section, err)
	}
	if o.sections == nil {
		o.sections = map[string]json.RawMessage{}
	}
	o.sections[section] = b
	return nil
}

// Watch has Exec fail with ErrStopping if a stop signal comes from here on, so that one is not lost which came before the
// exec and was not acted on. Others who called signal.Notify get it as well. Exec watches by itself from its beginning.
func (o *Out) Watch() {
	if o.came == nil {
		o.came = make(chan os.Signal, 1)
		signal.Notify(o.came, stopSignals...)
	}
}

// Unwatch ends Watch and tells whether a stop signal has come.
func (o *Out) Unwatch() bool {
	if o.came == nil {
		return false
	}
	signal.Stop(o.came) // what has come so far has been delivered when this returns
	came := len(o.came) > 0
	o.came = nil
	return came
}
