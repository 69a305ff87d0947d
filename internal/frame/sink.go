// SPDX-License-Identifier: Apache-2.0

package frame

// A Sink takes frames without ever blocking on its receiver: it accepts whole frames or drops and counts them.
//
// Deliver borrows b until it returns, and b holds only frames of at most MaxFrame bytes. Several goroutines may call it at
// once. A Sink never closes a port: a receiver that died is reported by the link that owns the Sink.
type Sink interface {
	Deliver(b Batch)
	// MaxFrame is the longest frame the receiver takes, in bytes, without the prefix. It never changes.
	MaxFrame() int
}
