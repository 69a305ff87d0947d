// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
)

// A Status is a vmnet_return_t, by the numbers of vmnet.h.
type Status uint32

// The statuses of macOS 10.10 to 26.
const (
	Success            Status = 1000
	Failure            Status = 1001
	MemFailure         Status = 1002
	InvalidArgument    Status = 1003
	SetupIncomplete    Status = 1004
	InvalidAccess      Status = 1005
	PacketTooBig       Status = 1006
	BufferExhausted    Status = 1007
	TooManyPackets     Status = 1008
	SharingServiceBusy Status = 1009
	NotAuthorized      Status = 1010
)

// meanings are the name of each status, what it usually means, and what the user can do about it.
var meanings = map[Status]struct{ name, meaning, remedy string }{
	Success: {"VMNET_SUCCESS", "no error", ""},
	Failure: {
		"VMNET_FAILURE", "usually missing rights, or no more interfaces are free",
		"run as root, or on macOS 26 with a signature that has com.apple.security.virtualization, from outside of ~/Documents, ~/Desktop and ~/Downloads",
	},
	MemFailure: {
		"VMNET_MEM_FAILURE", "out of memory, or the sharing service may not be asked: missing rights, or a sandbox",
		"run as root, or on macOS 26 with a signature that has com.apple.security.virtualization, outside of a sandbox",
	},
	InvalidArgument: {
		"VMNET_INVALID_ARGUMENT", "macOS does not take one of the values",
		"check the --vmnet options",
	},
	SetupIncomplete: {"VMNET_SETUP_INCOMPLETE", "the interface is not ready", ""},
	InvalidAccess:   {"VMNET_INVALID_ACCESS", "permission denied, or the interface is gone", "run as root"},
	PacketTooBig:    {"VMNET_PACKET_TOO_BIG", "a frame is longer than the interface takes", ""},
	BufferExhausted: {"VMNET_BUFFER_EXHAUSTED", "the kernel's buffers are full for the moment", ""},
	TooManyPackets:  {"VMNET_TOO_MANY_PACKETS", "more packets than one call takes", ""},
	SharingServiceBusy: {
		"VMNET_SHARING_SERVICE_BUSY", "the subnet or the bridge is in use, by Internet Sharing or by another program with virtual machines",
		"stop that program or choose another --vmnet-gateway",
	},
	NotAuthorized: {
		"VMNET_NOT_AUTHORIZED", "this program may not use vmnet",
		"run as root, or on macOS 26 with a signature that has com.apple.security.virtualization",
	},
}

// Name is the constant's name in vmnet.h, or the number of an unknown status.
func (s Status) Name() string {
	if m, ok := meanings[s]; ok {
		return m.name
	}
	return fmt.Sprintf("vmnet status %d", uint32(s))
}

// Error tells number and name in the form of socket_vmnet's log, what the status usually means and what can be done.
func (s Status) Error() string {
	m, ok := meanings[s]
	switch {
	case !ok:
		return fmt.Sprintf("[%d] unknown vmnet status", uint32(s))
	case m.remedy == "":
		return fmt.Sprintf("[%d] %s: %s", uint32(s), m.name, m.meaning)
	}
	return fmt.Sprintf("[%d] %s: %s; %s", uint32(s), m.name, m.meaning, m.remedy)
}

// ErrMissing is wrapped by errors about a symbol that this macOS does not have.
var ErrMissing = errors.New("not in the vmnet.framework of this macOS")

// ErrNoAnswer is wrapped by errors about a handler that was not called in time.
var ErrNoAnswer = errors.New("vmnet.framework did not answer in time")

// A CallError is a call that failed with a status.
type CallError struct {
	Call   string // the function's name
	Status Status // wrapped
}

func (e *CallError) Error() string {
	if e.Status == Failure && !starts[e.Call] {
		return fmt.Sprintf("%s: [%d] %s: macOS gives no reason", e.Call, uint32(e.Status), e.Status.Name())
	}
	text := e.Call + ": " + e.Status.Error()
	if e.Call == create && (e.Status == Failure || e.Status == SharingServiceBusy) {
		text += "; the subnet may also be that of a daemon that was killed, which macOS keeps: use --vmnet-api=interface if you can"
	}
	return text
}

// create makes network objects.
const create = "vmnet_network_create"

// starts are the calls that fail for want of rights. In others a general failure means something else.
var starts = map[string]bool{
	"vmnet_start_interface":              true,
	"vmnet_interface_start_with_network": true,
	create:                               true,
	"vmnet_network_configuration_create": true,
}

// Unwrap returns the status.
func (e *CallError) Unwrap() error { return e.Status }
