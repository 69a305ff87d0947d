// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// startApart starts program in a network namespace of its own, where it may make interfaces. errors.ErrUnsupported is wrapped
// where this user may not: some systems and containers forbid it.
func startApart(ctx context.Context, program string, env ...string) (*exec.Cmd, *bytes.Buffer, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	var credential *syscall.Credential
	if uid == 0 {
		uid, gid = ordinary, ordinary
		credential = &syscall.Credential{Uid: ordinary, Gid: ordinary, NoSetGroups: true}
	}
	var errs []error
	for _, flags := range []uintptr{syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, syscall.CLONE_NEWNET} {
		attr := &syscall.SysProcAttr{Cloneflags: flags, Setpgid: true, Credential: credential, AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}}
		if flags&syscall.CLONE_NEWUSER != 0 {
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, program)
		cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), env...), &out, os.Stderr, "/", attr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = patience
		err := cmd.Start()
		if err == nil {
			return cmd, &out, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, fmt.Errorf("%w: a network namespace: %w", errors.ErrUnsupported, errors.Join(errs...))
}

// vpn makes an interface with an address, as a VPN or another virtual machine's program does. That is a bridge without ports,
// and where the kernel has none an address more of the loopback interface. Elsewhere than in a namespace
// of our own it does nothing.
func vpn(name string, p netip.Prefix) error {
	if os.Getenv(sceneEnv) == "" {
		return fmt.Errorf("%w: this network is not ours", errors.ErrUnsupported)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCBRADDBR, buf); err != nil { // it takes a name, which an Ifreq begins with
		if buf, err = unix.NewIfreq("lo:" + name); err != nil {
			return err
		}
	}
	address := p.Addr().As4()
	if err := buf.SetInet4Addr(address[:]); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, buf); err != nil {
		return fmt.Errorf("give %s the address %s: %w", name, p, err)
	}
	if err := buf.SetInet4Addr(net.CIDRMask(p.Bits(), 32)); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, buf); err != nil {
		return err
	}
	buf.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, buf)
}
