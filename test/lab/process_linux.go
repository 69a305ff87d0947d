// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ownGroup keeps a Ctrl-C on the terminal away from the process, since Close ends it in good order, and has the kernel
// kill it should this program die without doing so.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // fails when all have ended
}

// UseOf asks the system what process pid uses.
func UseOf(pid int) (Use, error) {
	p, err := procfs.NewProc(pid)
	files, errFiles := p.FileDescriptorsLen()
	status, errStatus := p.NewStatus()
	stat, errStat := p.Stat()
	return Use{
		Files: files, Threads: stat.NumThreads, RSS: int(status.VmRSS >> 10), Anon: int(status.RssAnon >> 10),
		CPU: time.Duration(stat.CPUTime() * float64(time.Second)),
	}, errors.Join(err, errFiles, errStatus, errStat)
}

// Files are the descriptors of process pid in words.
func Files(pid int) []string {
	p, _ := procfs.NewProc(pid)
	what, _ := p.FileDescriptorTargets()
	return what
}

// Child is the first process that pid has started and that has not ended, 0 if there is none.
func Child(pid int) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		b, _ := os.ReadFile(path)
		if all := strings.Fields(string(b)); len(all) > 0 {
			child, _ := strconv.Atoi(all[0])
			return child
		}
	}
	return 0
}

// FewFiles leaves process pid more descriptors than it has now, and no others, until the function that it returns is called.
func FewFiles(pid, more int) (restore func()) {
	u, err := UseOf(pid)
	var before unix.Rlimit
	if err != nil || unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before) != nil {
		return func() {}
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(u.Files + more), Max: before.Max}, nil)
	return func() { _ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil) }
}

// As calls f on a thread with the rights of a user and one group alone, where root calls it, and waits for its end.
func As(uid, gid int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // for good: the thread ends with the goroutine. The system calls change a thread only.
			group := uint32(gid)
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&group)), 0)
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
			if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
				panic(e)
			}
		}
		f()
	}()
	<-done
}
