// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package link

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// sendMayWait is whether a send can wait where O_NONBLOCK was cleared: macOS then ignores MSG_DONTWAIT.
const sendMayWait = true

// readNow reads what is there without waiting. shared says that O_NONBLOCK may have been cleared; asking for each call costs
// some garbage.
func readNow(fd int, b []byte, shared bool) (int, error) {
	if !shared {
		return darwinapi.Read(fd, b)
	}
	n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	return n, err
}

// writeOnce writes what the socket takes, without waiting as long as the descriptor is non-blocking: for sure if it is not shared.
func writeOnce(fd int, b []byte, shared bool) (int, error) {
	if !shared {
		return darwinapi.Write(fd, b)
	}
	return unix.Write(fd, b)
}

const (
	// maxWaits is how often the drainer waits for a batch before it drops it.
	maxWaits = 10
	// waitTime is how long it waits each time: macOS says ENOBUFS when the receiver's buffer is full, and not when it has
	// room again.
	waitTime = 50 * time.Microsecond
)

// Wait implements pipe.
func (p *datagramPipe) Wait(<-chan struct{}) { time.Sleep(waitTime) }

// onlySender is whose datagrams to take from a socket that is bound and connected. Macs deliver to it whatever is sent to its path
// by all that may write there: uipc_send in XNU's bsd/kern/uipc_usrreq.c does not look at the receiver's peer.
func onlySender(fd int) (name []byte, only bool) {
	own, err := unix.Getsockname(fd)
	if a, ok := own.(*unix.SockaddrUnix); err != nil || !ok || a.Name == "" {
		return nil, false
	}
	peer, err := unix.Getpeername(fd)
	if a, ok := peer.(*unix.SockaddrUnix); err == nil && ok && a.Name != "" {
		name = []byte(a.Name)
	}
	return name, true
}

// refuseWrites does nothing: elsewhere shutting down the reading side only throws away what comes, and a peer that writes
// would wait for ever.
func refuseWrites(int) bool { return false }
