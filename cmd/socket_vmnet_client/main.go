// SPDX-License-Identifier: Apache-2.0

// The runtime would otherwise keep files open to watch the CPU quota, and the command is about to get their numbers.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command socket_vmnet_client connects to a socket_vmnet socket and runs a command with the connection as file descriptor 3:
//
//	socket_vmnet_client SOCKET [--] COMMAND [ARGS...]
//
// It is for programs such as QEMU with -netdev socket,fd=3. The command takes the place of this process: same process id,
// environment, limits and other open files.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "github.com/socket-vmnet2/socket_vmnet2/internal/daemon/lowfd" // the connection gets such a number
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// maxSocketPath is the longest path of a unix socket in bytes without its NUL: 103 on macOS, 107 on Linux.
	maxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

	// firstFD is the first descriptor that is not a standard stream, the one that QEMU users write as fd=3.
	firstFD = 3
)

func main() {
	os.Exit(run(os.Args, os.Stderr))
}

// run returns only if the command could not be started.
func run(argv []string, stderr io.Writer) int {
	command := commandOf(argv)
	if len(command) == 0 {
		name := "socket_vmnet_client"
		if len(argv) > 0 {
			name = argv[0]
		}
		_, _ = fmt.Fprintf(stderr, "Usage: %s SOCKET COMMAND [ARGS...]\n", name)
		return 1
	}
	path := argv[1]
	if len(path) > maxSocketPath {
		_, _ = fmt.Fprintf(stderr, "The socket path \"%s\" is too long\n", path)
		return 1
	}
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "socket: %s\n", strerror(err))
		return 1
	}
	proto.SetBuffers(fd, proto.Stream)
	if err := connect(fd, path); err != nil {
		_, _ = fmt.Fprintf(stderr, "Failed to connect to \"%s\": %s\n", path, strerror(err))
		if err == unix.ECONNREFUSED || err == unix.ENOENT {
			_, _ = fmt.Fprintln(stderr, "No daemon listens there: start it, or give the SOCKET of the one that runs")
		}
		return 1
	}
	if _, debug := os.LookupEnv("DEBUG"); debug {
		for i, a := range command {
			_, _ = fmt.Fprintf(stderr, "child_argv[%d]: \"%s\"\n", i, a)
		}
	}
	passed, err := passOn(fd)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "dup2: %s\n", strerror(err))
		return 1
	}
	if passed != firstFD { // a command with fd=3 would use the caller's file for its network
		_, _ = fmt.Fprintf(stderr, "WARN | descriptor %d is taken by %s, which the caller passes on, so the connection is descriptor %d: have the command use that, or close %[1]d, by %[1]d>&- in a shell\n", firstFD, hostfs.FileOf(firstFD), passed)
	}
	err = execvp(command)
	_, _ = fmt.Fprintf(stderr, "Failed to exec \"%s\": %s\n", command[0], strerror(err))
	return 1
}

// commandOf returns what is to be run, nothing if that is missing. One "--" in front of it is left out.
func commandOf(argv []string) []string {
	if len(argv) < 3 {
		return nil
	}
	if argv[2] == "--" {
		return argv[3:]
	}
	return argv[2:]
}

// strerror is C's text for an errno, which Go has with a small letter.
func strerror(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// connect connects fd to path.
func connect(fd int, path string) error {
	for {
		err := unix.Connect(fd, hostfs.Address(path))
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EISCONN): // after an interrupted one
			return nil
		default:
			return err
		}
	}
}

// passOn gives fd the lowest number from 3 on that is not taken by a file the caller wants passed on too, and keeps it open
// in the command. It returns that number. A descriptor with close-on-exec is one of the Go runtime's: it would be gone after exec
// anyway.
func passOn(fd int) (target int, err error) {
	target = firstFD
	for hostfs.Inherited(target) {
		target++
	}
	if target == fd {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		return target, err
	}
	return target, hostfs.Dup2(fd, target)
}
