// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// userFault tells when the user cannot have a job of that kind.
func (s *service) userFault() error {
	old := s.sys.GOOS == "darwin" && s.sys.Darwin < unprivileged
	switch mine := s.job.User; {
	case !mine && s.sys.UID != 0 && old:
		return errors.New("a job of the system needs root: use sudo")
	case !mine && s.sys.UID != 0:
		return errors.New("a job of the system needs root: use sudo, or --user for a job of your own")
	case mine && s.sys.UID == 0:
		return errors.New("--user is for a job of your own, without root: leave sudo out, or --user")
	case mine && old:
		return errors.New("--user needs macOS 26: before that, vmnet needs root; install the job of the system, with sudo and without --user")
	case mine && (s.sys.Home == "" || s.sys.GOOS != "darwin" && s.sys.RuntimeDir == ""):
		return errors.New("HOME or XDG_RUNTIME_DIR is not set: log in as the user, a su or sudo to it is not enough")
	}
	return nil
}

// programFault tells what is wrong with the program, or with its path: what the system starts must be root's to change alone.
func (s *service) programFault() error {
	fi, err := os.Stat(s.sys.at(s.job.Program))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is not there: \"socket_vmnet2 install\" puts it there, or --prefix says where it is", s.job.Program)
	case err != nil:
		return fmt.Errorf("the program of the job: %w", err)
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		return fmt.Errorf("%s is no program that can be run", s.job.Program)
	case s.job.User:
		return nil
	}
	if err := hostfs.Check(s.job.Program, hostfs.Options{Root: s.sys.Root, AllowSpace: true}); err != nil {
		return fmt.Errorf("the system would run what others than root can change: %w", err)
	}
	return nil
}

// groupFault tells when systemd could not start the service for want of its group. The default one is made if need be.
func (s *service) groupFault() error {
	if s.job.Group == "" || s.job.Group == linuxGroup || s.job.User {
		return nil
	}
	if _, err := user.LookupGroup(s.job.Group); err != nil {
		return fmt.Errorf("there is no group %s for the socket; make it with \"groupadd --system %[1]s\", or choose another with --socket-group=GROUP behind --", s.job.Group)
	}
	return nil
}

// foreign are jobs that serve the same socket, and how each of them is stopped. A label ends in * where there are several.
var foreign = []struct{ label, stop string }{
	{"io.github.lima-vm.socket_vmnet*", "sudo launchctl bootout system/LABEL"},
	{"homebrew.mxcl.socket_vmnet", "sudo brew services stop socket_vmnet"},
	{"homebrew.mxcl.socket_vmnet2", "sudo brew services stop socket_vmnet2"},
	{"org.macports.socket_vmnet", "sudo port unload socket_vmnet"},
	{labelBase + ".*", "sudo launchctl bootout system/LABEL"},
}

// socketFault finds another job, or any other program, at the socket. before is what there is of this job.
func (s *service) socketFault(ctx context.Context, before state) error {
	for _, f := range foreign {
		if s.sys.GOOS != "darwin" {
			break
		}
		paths, _ := filepath.Glob(s.sys.at("/Library/LaunchDaemons/" + f.label + ".plist"))
		for _, path := range paths {
			name := strings.TrimSuffix(filepath.Base(path), ".plist")
			text, err := os.ReadFile(path)
			args := launchdArguments(string(text))
			if err != nil || name == s.job.Name && !s.job.User || len(args) == 0 || filepath.Clean(args[len(args)-1]) != filepath.Clean(s.job.Socket) {
				continue
			}
			if r, err := s.sys.Run(ctx, "launchctl", "print", "system/"+name); err != nil || r.Code != 0 {
				continue
			}
			return fmt.Errorf("the job %s serves %s: stop it first, with %q", name, s.job.Socket, strings.ReplaceAll(f.stop, "LABEL", name))
		}
	}
	if before.installed() || before.loaded || s.sys.Reach(s.job.Socket) != nil {
		return nil // nothing serves it but this very job
	}
	return fmt.Errorf("something serves %s already: stop it first, or choose another SOCKET behind --; \"sudo lsof %[1]s\" tells what it is", s.job.Socket)
}
