// SPDX-License-Identifier: Apache-2.0

package service

import (
	"os"
	"path/filepath"
	"syscall"
)

// leftovers removes what a daemon leaves beside its socket, unless another one uses it: the lock is held by whoever serves, and
// directories are removed empty only.
func (s *Service) leftovers(p *plan) {
	socket := s.job.Socket
	if socket == "" {
		return
	}
	if fi, err := os.Lstat(s.sys.at(socket)); err == nil && fi.Mode()&os.ModeSocket != 0 && s.dead(socket) {
		p.remove(socket)
	}
	if s.unlocked(socket + ".lock") {
		p.remove(socket + ".lock")
	}
	for _, dir := range []string{socket + ".d/dgram", socket + ".d"} {
		if s.empty(dir) {
			p.remove(dir)
		}
	}
	if dir := filepath.Dir(socket); dir == s.sys.socketDir(s.job.User) && dir != "/var/run" && s.empty(dir, filepath.Base(socket), filepath.Base(socket)+".lock", filepath.Base(socket)+".d") {
		p.remove(dir)
	}
}

// dead tells whether nobody accepts connections at a socket. In a dry run the daemon may still do.
func (s *Service) dead(socket string) bool { return s.dry || s.sys.Reach(socket) != nil }

// unlocked tells whether a lock file is there and nobody holds it.
func (s *Service) unlocked(path string) bool {
	f, err := os.OpenFile(s.sys.at(path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular() && (s.dry || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil)
}

// empty tells whether path is a directory, not a link to one, with nothing in it that will not have been removed.
func (s *Service) empty(path string, removed ...string) bool {
	fi, err := os.Lstat(s.sys.at(path))
	if err != nil || !fi.IsDir() {
		return false
	}
	entries, err := os.ReadDir(s.sys.at(path))
	for _, e := range entries {
		gone := filepath.Base(path) == filepath.Base(s.job.Socket)+".d" && e.Name() == "dgram" && s.empty(path+"/dgram")
		for _, r := range removed {
			gone = gone || e.Name() == r
		}
		if !gone {
			return false
		}
	}
	return err == nil
}

// kept tells what uninstalling leaves.
func (s *Service) kept() string {
	switch {
	case s.sys.GOOS == "darwin" && s.job.User:
		return "the logs in " + s.job.LogDir + " and what the network remembers, in " + filepath.Join(s.sys.Home, "Library/Application Support/socket_vmnet2")
	case s.sys.GOOS == "darwin":
		return "the logs in " + s.job.LogDir + " and what the network remembers, in /var/db/socket_vmnet2"
	case s.job.User:
		return "the journal and what the network remembers, in " + filepath.Join(s.sys.Home, ".local/state/socket_vmnet2")
	}
	return "the journal, the user " + linuxUser + ", and what the network remembers, in " + linuxState
}
