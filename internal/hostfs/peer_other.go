// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !linux

package hostfs

// PeerOfFD knows nothing here.
func PeerOfFD(int) Peer { return Peer{} }
