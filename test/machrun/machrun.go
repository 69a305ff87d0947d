// SPDX-License-Identifier: Apache-2.0

// Package machrun builds the loader in csrc, which runs programs for macOS on Linux, and flips its switches.
package machrun

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

//go:embed csrc/*.c csrc/*.h
var csrc embed.FS

// linking makes the loader's pthread_create that of the libraries that it loads.
var linking = []string{"-rdynamic", "-ldl"}

// Program builds the loader unless it is there already, and returns its path. Without gcc it skips the test, except in
// CI, where it fails.
func Program(tb testing.TB) string {
	tb.Helper()
	p, err := Build(tb.Context())
	return cbuild.Must(tb, p, err)
}

// Build builds the loader, with more flags for the compiler, unless it is there already, and returns its path. It may run in
// several processes at the same time.
func Build(ctx context.Context, more ...string) (string, error) {
	files, err := cbuild.Sources(csrc)
	if err != nil {
		return "", err
	}
	flags := slices.Concat([]string{"-O2"}, linking, more)
	return cbuild.Program{Dir: "machrun", Name: "machrun", Flags: flags, Files: files}.Build(ctx)
}

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
