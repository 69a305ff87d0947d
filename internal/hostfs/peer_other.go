// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !linux

package hostfs

// peerOfFD knows nothing here.
func peerOfFD(int) Peer { return Peer{} }
