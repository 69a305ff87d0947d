// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package mmsg

import "github.com/socket-vmnet2/socket_vmnet2/internal/frame"

func newReceiver(names bool) (*Receiver, error) { return newPlain(names) }

func send(fd int, to []byte, b frame.Batch, _ []byte) (int, error) { return sendPlain(fd, to, b, nil) }

func credentials(uint32, uint32) []byte { return nil }
