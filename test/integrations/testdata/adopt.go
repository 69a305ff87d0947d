// SPDX-License-Identifier: Apache-2.0

// Command adopt is a VMM that makes its own pair of sockets. A test builds it in a module of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/attach"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

func run(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	machine, daemon := os.NewFile(uintptr(fds[0]), "machine"), os.NewFile(uintptr(fds[1]), "daemon")
	link, err := attach.Adopt(ctx, socket, daemon, attach.WithInterfaceID(id), attach.WithName("adopted"))
	daemon.Close()
	if err != nil {
		return err
	}
	defer link.Close()
	fmt.Println(link.Info.Mode, link.Info.Subnet, link.Info.InterfaceID)

	_, err = attach.Dial(ctx, socket, attach.WithInterfaceID(id))
	fmt.Println("second with this id:", errors.Is(err, attach.ErrIDInUse))

	vm := exec.Command("vfkit", "--device", "virtio-net,fd=3,mac="+link.Info.MAC.String())
	vm.Stderr = os.Stderr
	vm.ExtraFiles = []*os.File{machine}
	if err := vm.Run(); err != nil {
		return err
	}
	fmt.Println("machine ran")
	fmt.Println(link.Wait(ctx)) // until the daemon is stopped
	return nil
}
