// SPDX-License-Identifier: Apache-2.0

package attach_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/attach"
)

// A virtual machine in this process: on macOS the file goes to vz.NewFileHandleNetworkDeviceAttachment.
func ExampleDial() {
	socket, stop := startDaemon()
	defer stop()

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
	// Output:
	// address of the interface: 52:54:00:12:34:56
	// network: 192.168.105.0/24 by 192.168.105.1
	// largest frame: 1514
}

// A virtual machine in a child of this process, which inherits the descriptor as number 3.
func ExampleDial_exec() {
	socket, stop := startDaemon()
	defer stop()

	link, err := attach.Dial(context.Background(), socket)
	if err != nil {
		panic(err)
	}
	defer link.Close()

	// vfkit: "--device", "virtio-net,fd=3,mac=" + link.Info.MAC.String()
	// QEMU:  "-netdev", "dgram,id=n0,local.type=fd,local.str=3"
	cmd := exec.Command("sh", "-c", "test -S /dev/fd/3 && echo the machine has its link")
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{link.File} // the first one is number 3
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	link.File.Close() // the child has it now; the lifeline stays with us
	if err := cmd.Wait(); err != nil {
		panic(err)
	}
	// Output: the machine has its link
}

// A machine that outlives this process takes the lifeline along: the session ends when the machine does.
func ExampleLink_Lifeline() {
	socket, stop := startDaemon()
	defer stop()

	link, err := attach.Dial(context.Background(), socket)
	if err != nil {
		panic(err)
	}
	lifeline, err := link.Lifeline()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("sh", "-c", "test -S /dev/fd/3 && test -S /dev/fd/4")
	cmd.ExtraFiles = []*os.File{link.File, lifeline}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	lifeline.Close()
	link.Close() // ours; the child keeps the session alive, and this process may end

	fmt.Println(cmd.Wait())
	// Output: <nil>
}

// A program that makes the pair of sockets itself, as Lima's VZ driver does, hands one end over and keeps the other.
func ExampleAdopt() {
	socket, stop := startDaemon()
	defer stop()

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
	// Output: shared network
}

// What the daemon refuses has a code.
func ExampleCode() {
	socket, stop := startDaemon()
	defer stop()

	_, err := attach.Dial(context.Background(), socket, attach.WithName("one too many"))
	switch {
	case errors.Is(err, attach.ErrFull):
		fmt.Println("later perhaps")
	case errors.Is(err, os.ErrNotExist):
		fmt.Println("is the daemon running?")
	case err != nil:
		panic(err)
	}
	// Output: later perhaps
}

// Done tells that the daemon has gone.
func ExampleLink_Done() {
	socket, stop := startDaemon()

	link, err := attach.Dial(context.Background(), socket)
	if err != nil {
		panic(err)
	}
	defer link.Close()
	stop()
	<-link.Done()
	fmt.Println(link.Wait(context.Background()))
	// Output: attach: the daemon ended the session
}

// startDaemon plays a daemon that has room for clients of any name but one.
func startDaemon() (socket string, stop func()) {
	dir, err := os.MkdirTemp("/tmp", "attach")
	if err != nil {
		panic(err)
	}
	socket = filepath.Join(dir, "sock")
	if err := os.Mkdir(socket+".d", 0o700); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, name := range []string{"attach", "adopt"} {
		l, err := net.Listen("unix", filepath.Join(socket+".d", name))
		if err != nil {
			panic(err)
		}
		context.AfterFunc(ctx, func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				context.AfterFunc(ctx, func() { c.Close() })
				if conn, ok := c.(*net.UnixConn); ok {
					answerOne(conn, name == "attach")
				}
			}
		}()
	}
	return socket, func() {
		cancel()
		os.RemoveAll(dir)
	}
}

// answerOne answers one request, with a descriptor if pass is set.
func answerOne(c *net.UnixConn, pass bool) {
	line, _ := bufio.NewReader(c).ReadString('\n')
	if line == `{"version":1,"transport":"dgram","name":"one too many"}`+"\n" {
		fmt.Fprintln(c, `{"version":1,"error":{"code":"full","text":"as many clients as --max-clients allows"}}`)
		return
	}
	var oob []byte
	if pass {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
		if err != nil {
			panic(err)
		}
		defer syscall.Close(fds[0])
		defer syscall.Close(fds[1])
		oob = syscall.UnixRights(fds[1])
	}
	_, _, _ = c.WriteMsgUnix([]byte(`{"version":1,"transport":"dgram","backend":"usernet","mode":"shared","gateway":"192.168.105.1",`+
		`"isolated":false,"offload":false,"vmnet_mac_address":"52:54:00:12:34:56","vmnet_mtu":1500,"vmnet_max_packet_size":1514,`+
		`"vmnet_subnet_mask":"255.255.255.0","vmnet_start_address":"192.168.105.1","vmnet_end_address":"192.168.105.254"}`+"\n"),
		oob, nil)
}
