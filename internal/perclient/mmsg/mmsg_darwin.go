// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// newReceiver takes recvmsg_x where it is there. That gives no names.
func newReceiver(names bool) (*Receiver, error) {
	if names || !darwinapi.Available() {
		return newPlain(names)
	}
	return newList()
}

// send takes sendmsg_x where it is there. That takes no names.
func send(fd int, to []byte, b frame.Batch, _ []byte) (int, error) {
	if to != nil || b.Len() == 1 || !darwinapi.Available() {
		return sendPlain(fd, to, b, nil)
	}
	return sendList(fd, to, b, nil)
}

// credentials are none: only Linux tells receivers what user has sent a datagram.
func credentials(uint32, uint32) []byte { return nil }
