// SPDX-License-Identifier: Apache-2.0

package pages

// Peers are the figures that others have published, of their programs on their machines.
type Peers struct{}

// LoadPeers reads them from a file.
func LoadPeers(_ string) (Peers, error) { return Peers{}, nil }
