// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// datagramPeer is who is behind a datagram client whose socket belongs to uid. On Linux the kernel has said that the datagrams
// come from that user or from root; elsewhere nothing tells who sent one.
func datagramPeer(uid uint32) peercred.Peer {
	return peercred.Peer{Known: true, UID: uid, Unverified: runtime.GOOS != "linux"}
}

// datagramLog is what each line in the log about such a client has.
func datagramLog(path string, uid uint32) []any {
	args := []any{"transport", "dgram", "path", path, "uid", uid}
	if datagramPeer(uid).Unverified {
		args = append(args, "unverified", true)
	}
	return args
}
