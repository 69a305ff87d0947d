// SPDX-License-Identifier: Apache-2.0

package service

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// leftovers removes what a daemon leaves beside its socket when it is killed, and its lock, which it always leaves. What another
// one uses stays: the lock is held by whoever serves. Directories are removed empty only.
func (s *Service) leftovers(p *plan) {
	socket := s.job.Socket
	if socket == "" {
		return
	}
	var gone []string
	remove := func(path string, really bool) {
		if really {
			p.remove(path)
			gone = append(gone, path)
		}
	}
	fi, err := os.Lstat(s.sys.at(socket))
	remove(socket, err == nil && fi.Mode()&os.ModeSocket != 0 && (s.dry || s.sys.Reach(socket) != nil))
	remove(socket+".lock", s.unlocked(socket+".lock"))

	beside := socket + ".d"
	if s.unlocked(beside + "/lock") {
		for _, name := range []string{"/attach", "/adopt", "/control", "/control.root", "/dgram/sock"} {
			fi, err := os.Lstat(s.sys.at(beside + name))
			remove(beside+name, err == nil && fi.Mode()&os.ModeSocket != 0)
		}
		remove(beside+"/lock", true)
	}
	for _, dir := range []string{beside + "/dgram", beside} {
		remove(dir, s.empty(dir, gone))
	}
	dir := filepath.Dir(socket)
	remove(dir, dir == s.sys.socketDir(s.job.User) && dir != "/var/run" && s.empty(dir, gone))
}

// unlocked tells whether a lock file is there and nobody holds it. In a dry run the daemon may do so still.
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
func (s *Service) empty(path string, gone []string) bool {
	fi, err := os.Lstat(s.sys.at(path))
	if err != nil || !fi.IsDir() {
		return false
	}
	entries, err := os.ReadDir(s.sys.at(path))
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !slices.Contains(gone, path+"/"+e.Name()) })
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
