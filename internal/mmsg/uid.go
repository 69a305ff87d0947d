// SPDX-License-Identifier: Apache-2.0

package mmsg

// UID is the user that sent message i of the last Receive, where the system tells: on Linux, for a Receiver with names on a
// socket with SO_PASSCRED, about datagrams that were sent since that was set.
func (r *Receiver) UID(i int) (uid uint32, ok bool) {
	if w, can := r.way.(interface{ uid(i int) (uint32, bool) }); can {
		return w.uid(i)
	}
	return 0, false
}
