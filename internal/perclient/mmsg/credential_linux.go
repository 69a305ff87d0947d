// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A credential is room for one control message with a struct ucred.
type credential struct {
	unix.Cmsghdr
	unix.Ucred
	_ [4]byte // CMSG_SPACE rounds up
}

// overflowUID is what stands for a user that the system cannot tell.
const overflowUID = 65534

// sender is in the control message. The system writes one whenever SO_PASSCRED is set. It knows no sender, and writes process 0
// and overflowUID, of a datagram that was sent before that; process 0 alone is a sender in another PID namespace.
func (w *batch) sender(i int) (int, uint32, bool) {
	h, c := &w.lay.hdr[i], &w.lay.cred[i]
	if !w.names || h.controlLen < unsafe.Offsetof(credential{}.Ucred)+unix.SizeofUcred ||
		c.Level != unix.SOL_SOCKET || c.Type != unix.SCM_CREDENTIALS || c.Pid == 0 && c.Uid == overflowUID {
		return 0, 0, false
	}
	return int(c.Pid), c.Uid, true
}
