// SPDX-License-Identifier: Apache-2.0

// Package rundir keeps the directory of the daemon's further sockets, SOCKET.d.
package rundir

import (
	"errors"
	"log/slog"
	"net"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// ErrNone is returned by Open when there shall be no directory: "none" was asked for (the error is ErrNone itself), or
// SOCKET's parent belongs to somebody else (the error wraps it and says what to do).
var ErrNone = errors.New("no runtime directory")

// Options are what Open needs.
type Options struct {
	Socket string       // path of SOCKET, whose lock the caller holds
	Dir    string       // --runtime-dir: empty for SOCKET.d, compat.RuntimeDirNone, or a path
	Owner  compat.Owner // of SOCKET: who may use it may use the directory
	Log    *slog.Logger
}

// A Dir is the directory.
type Dir struct{}

// Open makes or checks the directory.
func Open(Options) (*Dir, error) { return nil, ErrNone }

// Listen makes the stream socket name in the directory.
func (d *Dir) Listen(string) (*net.UnixListener, error) { return nil, ErrNone }

// ListenDatagram makes dgram/sock.
func (d *Dir) ListenDatagram() (*net.UnixConn, error) { return nil, ErrNone }

// Paths are the absolute paths of the sockets that were made.
func (d *Dir) Paths() []string { return nil }

// Remove removes the sockets, and the directories when they are empty.
func (d *Dir) Remove() {}
