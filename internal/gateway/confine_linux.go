// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/landlock-lsm/go-landlock/landlock"
)

// systemCalls are those of a gateway that runs, on every architecture: of Go's runtime, and of sockets. It starts no program, has no
// rights to change, and names no file but to read it.
var systemCalls = []string{
	"brk", "madvise", "mincore", "mmap", "mprotect", "munmap", "prctl",
	"clone", "clone3", "rseq", "set_robust_list", "exit", "exit_group", "futex", "getpid", "gettid", "sched_getaffinity", "sched_yield", "tgkill",
	"clock_gettime", "clock_nanosleep", "nanosleep", "timer_create", "timer_delete", "timer_settime",
	"restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2", "pipe2",
	"close", "fcntl", "fstat", "lseek", "openat", "pread64", "read", "readlinkat", "readv", "write", "writev",
	"accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmsg", "sendmsg", "sendto", "setsockopt",
	"shutdown", "socket",
	"getrandom", "getrlimit", "prlimit64", "uname",
}

// readable are where a gateway reads files, beside what /etc/resolv.conf leads to: what Go's package net and its runtime ask for.
var readable = []string{"/etc", "/run", "/proc"}

// confine leaves this process the files below readable, to read, as far as this kernel has Landlock, and systemCalls. All others fail.
func confine() error {
	dirs := readable
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil { // somewhere else, as on WSL
		dirs = append(slices.Clone(dirs), filepath.Dir(real))
	}
	files := landlock.V5.BestEffort().RestrictPaths(landlock.RODirs(dirs...).IgnoreIfMissing())
	calls := seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls:      []seccomp.SyscallGroup{{Action: seccomp.ActionAllow, Names: systemCalls}},
		},
	})
	if err := errors.Join(files, calls); err != nil {
		return fmt.Errorf("confine the gateway: %w", err)
	}
	return nil
}
