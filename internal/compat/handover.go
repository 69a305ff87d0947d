// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// A SavedLock is a SocketLock on its way to the next image of the daemon.
type SavedLock struct {
	Path  string `json:"path"`
	FD    int    `json:"fd"` // of SOCKET.lock
	Bound bool   `json:"bound"`
	Dev   uint64 `json:"dev"` // of the socket, if Bound
	Ino   uint64 `json:"ino"`
}

// A SavedPidfile is a Pidfile on its way to the next image of the daemon.
type SavedPidfile struct {
	Path string `json:"path"`
	FD   int    `json:"fd"`  // -1: there is no file of ours
	PID  int    `json:"pid"` // 0: not published
}

// Save notes what the next image needs. The lock stays ours, and l as it is.
func (l *SocketLock) Save(o *handover.Out) SavedLock {
	s := SavedLock{Path: l.path, FD: o.Conn(l.f)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine != nil {
		s.Dev, s.Ino, s.Bound = fileID(l.mine)
	}
	return s
}

// RestoreSocketLock takes the lock of path over. It is the same lock, so nobody else can have had it meanwhile.
func RestoreSocketLock(in *handover.In, s SavedLock, path string, log *slog.Logger) (*SocketLock, error) {
	if s.Path != path {
		return nil, fmt.Errorf("take over the lock of %s: the image before had that of %s", path, s.Path)
	}
	f, err := in.File(s.FD)
	if err == nil {
		if err = flock(f); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take over the lock of %s: %w", path, err)
	}
	l := &SocketLock{path: path, log: log, f: f}
	if s.Bound {
		l.mine = ours(path, s.Dev, s.Ino)
	}
	return l, nil
}

// Save notes what the next image needs. The pidfile stays ours, and p as it is.
func (p *Pidfile) Save(o *handover.Out) SavedPidfile {
	s := SavedPidfile{Path: p.path, FD: -1, PID: p.pid}
	if p.f != nil {
		s.FD = o.Conn(p.f)
	}
	return s
}

// RestorePidfile takes the pidfile at path over, with its lock and its content.
func RestorePidfile(in *handover.In, s SavedPidfile, path string, log *slog.Logger) (*Pidfile, error) {
	if s.Path != path {
		return nil, fmt.Errorf("take over the pidfile %s: the image before had %s", path, s.Path)
	}
	p := &Pidfile{path: path, log: log, pid: s.PID}
	if s.FD < 0 {
		return p, nil
	}
	f, err := in.File(s.FD)
	if err == nil {
		if err = flock(f); err != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take over the pidfile %s: %w", path, err)
	}
	p.f = f
	return p, nil
}

// fileID is what tells one file from another.
func fileID(fi os.FileInfo) (dev, ino uint64, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return uint64(st.Dev), st.Ino, true //nolint:unconvert // Dev is narrower on other systems
}

// ours is what is at path if it is the file that was bound there, else nil: then there is nothing of ours to remove.
func ours(path string, dev, ino uint64) os.FileInfo {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	if d, i, ok := fileID(fi); !ok || d != dev || i != ino {
		return nil
	}
	return fi
}
