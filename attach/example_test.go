// SPDX-License-Identifier: Apache-2.0

package attach_test

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

// socket is that of the daemon that "socket_vmnet2 service install" starts.
const socket = "/var/run/socket_vmnet"

// A virtual machine in this process: on macOS the file goes to vz.NewFileHandleNetworkDeviceAttachment.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	link, err := attach.Dial(ctx, socket, attach.WithName("web"))
	if err != nil {
		panic(err)
	}
	defer link.Close() // when the machine has ended

	// attachment, err := vz.NewFileHandleNetworkDeviceAttachment(link.File)
	// config, err := vz.NewVirtioNetworkDeviceConfiguration(attachment)
	fmt.Println("address of the interface:", link.Info.MAC)
	fmt.Println("network:", link.Info.Subnet, "by", link.Info.Gateway)
	fmt.Println("largest frame:", link.Info.MaxFrame)
}

// A virtual machine in a child of this process, which inherits the descriptor as number 3.
func ExampleDial_exec() {
	link, err := attach.Dial(context.Background(), socket)
	if err != nil {
		panic(err)
	}
	defer link.Close()

	// QEMU has "-netdev", "dgram,id=n0,local.type=fd,local.str=3".
	cmd := exec.Command("vfkit", "--device", "virtio-net,fd=3,mac="+link.Info.MAC.String())
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{link.File} // the first one is number 3
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	link.File.Close() // the child has it now; the lifeline stays with us
	if err := cmd.Wait(); err != nil {
		panic(err)
	}
}

// A machine that outlives this process takes the lifeline along: the session ends when the machine does.
func ExampleLink_Lifeline() {
	link, err := attach.Dial(context.Background(), socket)
	if err != nil {
		panic(err)
	}
	lifeline, err := link.Lifeline()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("vfkit", "--device", "virtio-net,fd=3,mac="+link.Info.MAC.String())
	cmd.ExtraFiles = []*os.File{link.File, lifeline}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	lifeline.Close()
	link.Close() // ours; the child keeps the session alive, and this process may end

	fmt.Println(cmd.Wait())
}

// A program that makes the pair of sockets itself, as Lima's VZ driver does, hands one end over and keeps the other.
func ExampleAdopt() {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		panic(err)
	}
	machine, daemon := os.NewFile(uintptr(fds[0]), "machine"), os.NewFile(uintptr(fds[1]), "daemon")
	defer machine.Close()

	link, err := attach.Adopt(context.Background(), socket, daemon)
	daemon.Close() // the daemon has its own
	if err != nil {
		panic(err)
	}
	defer link.Close()
	fmt.Println(link.Info.Mode, "network")
}

// krunkit inherits the descriptor as vfkit does, and wants to know its kind.
func ExampleDial_krunkit() {
	link, err := attach.Dial(context.Background(), socket, attach.WithName("gpu"))
	if err != nil {
		panic(err)
	}
	defer link.Close()

	cmd := exec.Command("krunkit", "--device", "virtio-net,type=unixgram,fd=3,mac="+link.Info.MAC.String())
	cmd.ExtraFiles = []*os.File{link.File}
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

// startVZ stands for a program's own function, which hands the file over to VZ on macOS:
//
//	attachment, err := vz.NewFileHandleNetworkDeviceAttachment(machine)
//	config, err := vz.NewVirtioNetworkDeviceConfiguration(attachment)
func startVZ(machine *os.File) error {
	_ = machine
	return nil
}

// A machine of VZ in this process that does not notice when the daemon is restarted.
func ExampleKeep() {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		panic(err)
	}
	machine, daemon := os.NewFile(uintptr(fds[0]), "machine"), os.NewFile(uintptr(fds[1]), "daemon")
	// On macOS SO_SNDBUF is the longest frame; Apple wants SO_RCVBUF twice as large, better four times.
	for option, size := range map[int]int{syscall.SO_SNDBUF: 1 << 20, syscall.SO_RCVBUF: 4 << 20} {
		if err := syscall.SetsockoptInt(fds[0], syscall.SOL_SOCKET, option, size); err != nil {
			panic(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background()) // for the machine's life
	defer stop()
	link, err := attach.Keep(ctx, socket, daemon, attach.WithName("web"), attach.WithNotify(func(err error) {
		fmt.Println("network:", err) // nil: it is back
	}))
	daemon.Close()
	if err != nil {
		panic(err)
	}
	if err := startVZ(machine); err != nil {
		panic(err)
	}
	if err := link.Wait(ctx); errors.Is(err, attach.ErrKicked) {
		fmt.Println("a user has disconnected this machine")
	}
}

// What the daemon refuses has a code.
func ExampleCode() {
	_, err := attach.Dial(context.Background(), socket, attach.WithName("one too many"))
	switch {
	case errors.Is(err, attach.ErrFull):
		fmt.Println("later perhaps")
	case errors.Is(err, os.ErrNotExist):
		fmt.Println("is the daemon running?")
	case err != nil:
		panic(err)
	}
}
