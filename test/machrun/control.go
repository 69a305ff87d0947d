// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A Control is the mapped control file of one or more programs, which get its directory as MACHRUN_DIR.
type Control struct{ *control }

// control is struct control of csrc/control.h.
type control struct {
	magic                        [16]byte
	slowExecve, slowExecveSkip   atomic.Int64
	ForeignEntries, KilledNobody atomic.Int64 // threads of a library's that ran the program's code; pthread_kill without a living thread
}

// Open makes and maps the control file in a directory, before a program starts.
func Open(dir string) (*Control, error) {
	f, err := os.OpenFile(filepath.Join(dir, "machrun.control"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = int(unsafe.Sizeof(control{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	copy(mem, "machrun-control")
	return &Control{(*control)(unsafe.Pointer(&mem[0]))}, nil
}

// SlowExecve has execve wait first, but for so many calls.
func (c *Control) SlowExecve(d time.Duration, skip int64) {
	c.slowExecveSkip.Store(skip)
	c.slowExecve.Store(d.Milliseconds())
}

// Close unmaps the file.
func (c *Control) Close() error {
	mem := unsafe.Slice((*byte)(unsafe.Pointer(c.control)), unsafe.Sizeof(*c.control))
	return syscall.Munmap(mem)
}
