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
func send(fd int, to []byte, b frame.Batch) (int, error) {
	if to != nil || b.Len() == 1 || !darwinapi.Available() {
		return sendPlain(fd, to, b)
	}
	return sendList(fd, to, b)
}
