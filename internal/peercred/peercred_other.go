// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !linux

package peercred

// ofFD knows nothing here.
func ofFD(int) Peer { return Peer{} }
