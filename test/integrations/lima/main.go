// SPDX-License-Identifier: Apache-2.0

// Command lima does on any system what docs/integrations/lima.md asks Lima's VZ driver to do on macOS: it makes a pair of
// datagram sockets, hands one end over with the package that Lima uses for that, and keeps the other for its machine, which
// here is one of ours that gets an address and pings the gateway:
//
//	lima SOCKET
//
// The machine ends when stdin does.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/balajiv113/fd"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lima SOCKET")
		os.Exit(1)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "lima:", err)
		os.Exit(1)
	}
}

// run is the machine's life.
func run(socket string) error {
	server, client, err := createSockPair()
	if err != nil {
		return err
	}
	// Lima keeps both as long as its machine runs.
	defer server.Close()
	defer client.Close()
	if err := handOver(socket, server); err != nil {
		return err
	}
	fmt.Println("handed over")

	guest, err := boot(client)
	if err != nil {
		return err
	}
	defer guest.Close()
	if err := use(guest); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// handOver is the few lines: Lima's PassFDToUnix with another path.
func handOver(socket string, server *os.File) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(socket+".d", "adopt"), Net: "unix"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := fd.Put(conn, server); err != nil {
		return fmt.Errorf("hand the descriptor over: %w", err)
	}
	return nil
}

// createSockPair makes the two ends, with Lima's buffers.
func createSockPair() (server, client *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	for _, end := range fds {
		err = errors.Join(err, syscall.SetsockoptInt(end, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1<<20),
			syscall.SetsockoptInt(end, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<20))
	}
	return os.NewFile(uintptr(fds[0]), "server"), os.NewFile(uintptr(fds[1]), "client"), err
}

// boot plays vz.NewFileHandleNetworkDeviceAttachment and the machine.
func boot(client *os.File) (*fakeguest.Guest, error) {
	conn, err := net.FileConn(client)
	if err != nil {
		return nil, err
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a unix socket")
	}
	link, err := fakeguest.DatagramLink(uc)
	if err != nil {
		return nil, err
	}
	return fakeguest.New(link, fakeguest.Options{Name: "lima"})
}

// use gets an address and pings the gateway.
func use(guest *fakeguest.Guest) error {
	lease, err := guest.Configure()
	if err != nil {
		return fmt.Errorf("get an address: %w", err)
	}
	if _, err := guest.Ping(lease.Gateway, 1); err != nil {
		return fmt.Errorf("ping the gateway: %w", err)
	}
	fmt.Printf("address %s, gateway %s answers\n", guest.Addr(), lease.Gateway)
	return nil
}
