// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !linux

package passing

// peerOfFD knows nothing here.
func peerOfFD(int) peer { return peer{} }
