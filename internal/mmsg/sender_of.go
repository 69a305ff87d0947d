// SPDX-License-Identifier: Apache-2.0

package mmsg

// Sender is the process and the user that sent message i of the last Receive, where the system tells: on Linux, for a Receiver
// with names on a socket with SO_PASSCRED, about datagrams that were sent since that was set. A process in another PID
// namespace has the number 0.
func (r *Receiver) Sender(i int) (pid int, uid uint32, ok bool) {
	if w, can := r.way.(interface {
		sender(i int) (int, uint32, bool)
	}); can {
		return w.sender(i)
	}
	return 0, 0, false
}
