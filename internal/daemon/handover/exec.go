// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec replaces this program by the one at path, which gets argv (the first element being its name), env and what o
// collected. It returns only with an error, and then all is as it was before: the descriptors are not inherited by children
// and signals arrive.
//
// No child can be started while descriptors are open to inheritance. A stop signal that came before is not lost: see
// ErrStopping. One that comes later reaches the new image when it calls Inherited, but for the moment of the exec and the first
// milliseconds of its life: then it ends the process, which is what it was for, only not in order.
func Exec(o *Out, path string, argv, env []string) error {
	o.Watch()
	defer o.Unwatch()
	f, err := o.write()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	memory := int(f.Fd())
	if slices.Contains(o.fds, memory) { // it was closed, so it was free to be the manifest's
		return fmt.Errorf("hand over descriptor %d: %w", memory, unix.EBADF)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envName+"=") })
	env = append(env, envName+"="+strconv.Itoa(memory))

	var limit unix.Rlimit
	lerr := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	err = o.exec(memory, path, argv, env)
	if lerr == nil { // syscall.Exec has set what a new program should begin with
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	runtime.KeepAlive(o)
	return err
}

// exec opens the descriptors to inheritance and replaces the program. Forks wait meanwhile.
func (o *Out) exec(memory int, path string, argv, env []string) error {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	all := append(slices.Clone(o.fds), memory)
	for n, fd := range all {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			closeOnExec(all[:n])
			return fmt.Errorf("hand over descriptor %d: %w", fd, err)
		}
	}
	defer stopSignalsKill()()
	err := ErrStopping
	if !o.Unwatch() {
		err = fmt.Errorf("exec %s: %w", path, syscall.Exec(path, argv, env))
	}
	closeOnExec(all)
	return err
}

func closeOnExec(fds []int) {
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
}

// write makes the manifest.
func (o *Out) write() (*os.File, error) {
	m := manifest{Version: Version, PID: os.Getpid(), From: o.From, Sections: o.sections, FDs: slices.Clone(o.fds)}
	for _, fd := range m.FDs {
		if fd <= 2 {
			return nil, fmt.Errorf("write the manifest: descriptor %d is always inherited and cannot be handed over", fd)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	if len(b) > maxSize || len(m.FDs) > maxFDs {
		return nil, fmt.Errorf("write the manifest: %d bytes with %d descriptors are more than the limits of %d and %d",
			len(b), len(m.FDs), maxSize, maxFDs)
	}
	f, err := memoryFile()
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = trusted(int(f.Fd())) // as the new image will ask, when it is too late
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the manifest: %w", err), f.Close())
	}
	return f, nil
}

// temporary makes a file without a name, with mode 0600. Root makes it where nobody else can give it a second name.
func temporary() (*os.File, error) {
	dir := ""
	if os.Geteuid() == 0 {
		dir = "/var/run"
	}
	f, err := os.CreateTemp(dir, ".socket_vmnet2-*") // made anew (O_EXCL), mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
