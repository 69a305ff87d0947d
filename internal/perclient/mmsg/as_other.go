// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mmsg

import "github.com/socket-vmnet2/socket_vmnet2/internal/frame"

// A credential is what Linux has.
type credential struct{}

// As would have everything be sent in the name of another user. Only Linux tells receivers who has sent a datagram.
func (s *Sender) As(uint32, uint32) bool { return false }

func sendAs(fd int, to []byte, b frame.Batch, _ *credential) (int, error) { return send(fd, to, b) }
