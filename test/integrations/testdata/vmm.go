// SPDX-License-Identifier: Apache-2.0

// Command vmm is a VMM that makes its own pair of sockets, and what its second argument says. A test builds it in a module of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/attach"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err == nil {
		machine, daemon := os.NewFile(uintptr(fds[0]), "machine"), os.NewFile(uintptr(fds[1]), "daemon")
		run := adopt
		if os.Args[2] == "keep" {
			run = keep
		}
		err = run(ctx, os.Args[1], machine, daemon)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

// adopt has a machine on a session that lasts until the daemon is stopped.
func adopt(ctx context.Context, socket string, machine, daemon *os.File) error {
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

// keep has a machine that stays over a restart of the daemon, until it is kicked.
func keep(ctx context.Context, socket string, machine, daemon *os.File) error {
	back := make(chan struct{}, 1)
	link, err := attach.Keep(ctx, socket, daemon, attach.WithName("kept"), attach.WithNotify(func(err error) {
		if err == nil {
			back <- struct{}{}
		}
	}))
	daemon.Close()
	if err != nil {
		return err
	}
	defer link.Close()
	if err := ask(machine, link.Info); err != nil {
		return err
	}
	fmt.Println("machine ran") // the daemon is restarted now
	select {
	case <-back:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ask(machine, link.Info); err != nil {
		return err
	}
	fmt.Println("machine ran again")

	fmt.Println("kicked:", errors.Is(link.Wait(ctx), attach.ErrKicked))
	return nil
}

// ask is the machine: it asks for the gateway's address by ARP and waits for the answer.
func ask(machine *os.File, info attach.Info) error {
	frame := slices.Concat(bytes.Repeat([]byte{0xff}, 6), info.MAC, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, info.MAC,
		info.Start.Next().AsSlice(), make([]byte, 6), info.Gateway.AsSlice())
	if _, err := machine.Write(frame); err != nil {
		return err
	}
	for buf := make([]byte, 2048); ; {
		n, err := machine.Read(buf)
		if err != nil {
			return err
		}
		if n >= 42 && bytes.Equal(buf[12:22], []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2}) {
			return nil
		}
	}
}
