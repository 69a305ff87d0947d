// SPDX-License-Identifier: Apache-2.0

// Package handover carries what a daemon has over to the program that takes its place by exec: open descriptors, which
// simply stay open, and a manifest that says what each of them is.
//
//	old image: Out.FD, Out.Put … → Exec ── descriptors, manifest in an unlinked file ──► Inherited → In.Get, In.File …
//
// The process stays the same one: same pid, same parent, same locks, since those belong to the open files. Only the
// descriptors that are listed survive, and no other process can slip a manifest in: it lies in a file without a name that
// belongs to our user, and holds our pid.
package handover

import (
	"encoding/json"
	"errors"
)

// Version is the version of the manifest's own fields. The sections have their versions in their types: a field that is
// not known is ignored, one that is missing is zero.
const Version = 1

// envName is the environment variable that holds the manifest's descriptor.
const envName = "SOCKET_VMNET2_HANDOFF"

// maxSize of a manifest in bytes. 4096 clients that each leave a frame unfinished in both directions, 102 KiB, fit in, a third
// more as text: nobody can prevent an upgrade by that.
const maxSize = 640 << 20

// maxFDs bounds the descriptors in a manifest: 4096 clients with two descriptors each, and some of the daemon's own.
const maxFDs = 1 << 16

// errNoSection is returned by In.Get for a section that the old image did not write.
var errNoSection = errors.New("the manifest has no such section")

// ErrStopping is returned by Exec when a stop signal came before the exec: it is on its way to those who asked for it by
// signal.Notify, and the daemon should go on so that they can stop it.
var ErrStopping = errors.New("not replaced, since a stop signal came")

// A manifest is what is written for the new image.
type manifest struct {
	Version  int                        `json:"version"`
	PID      int                        `json:"pid"`
	From     string                     `json:"from"` // version of the old image
	Sections map[string]json.RawMessage `json:"sections"`
	FDs      []int                      `json:"fds"` // all descriptors that are handed over
}
