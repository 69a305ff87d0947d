// SPDX-License-Identifier: Apache-2.0

//go:build !darwin && !vmnetsim

package darwinapi

import (
	"errors"
	"fmt"
	"runtime"
)

var errPlatform = fmt.Errorf("%w: it is part of macOS, and this is %s", errors.ErrUnsupported, runtime.GOOS)

// Available reports false.
func Available() bool { return false }

// ActivateSocket returns ErrNotLaunchd: there is no launchd.
func ActivateSocket(string) ([]int, error) { return nil, ErrNotLaunchd }

// A Sender exists on macOS.
type Sender struct{}

// NewSender returns an error.
func NewSender(int) (*Sender, error) { return nil, fmt.Errorf("sendmsg_x: %w", errPlatform) }

// Add takes nothing.
func (*Sender) Add([]byte) bool { return false }

// Len is 0.
func (*Sender) Len() int { return 0 }

// Send returns an error.
func (*Sender) Send(int) (int, error) { return 0, errPlatform }

// Reset does nothing.
func (*Sender) Reset() {}

// Free does nothing.
func (*Sender) Free() error { return nil }

// A Receiver exists on macOS.
type Receiver struct{}

// NewReceiver returns an error.
func NewReceiver(_, _, _ int) (*Receiver, error) {
	return nil, fmt.Errorf("recvmsg_x: %w", errPlatform)
}

// Receive returns an error.
func (*Receiver) Receive(int) (int, error) { return 0, errPlatform }

// Message is empty.
func (*Receiver) Message(int) []byte { return nil }

// Slots is empty.
func (*Receiver) Slots() []byte { return nil }

// Free does nothing.
func (*Receiver) Free() error { return nil }
