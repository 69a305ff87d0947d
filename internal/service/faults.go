// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/install/pathrules"
)

// commonFaults are what stands in the way of any change.
func (s *Service) commonFaults(context.Context) []error {
	var faults []error
	add := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	add(s.managerFault())
	switch user := s.job.User; {
	case !user && s.sys.UID != 0 && s.sys.GOOS == "darwin" && s.sys.Darwin < unprivileged:
		add(errors.New("a job of the system needs root: use sudo"))
	case !user && s.sys.UID != 0:
		add(errors.New("a job of the system needs root: use sudo, or --user for a job of your own"))
	case user && s.sys.UID == 0:
		add(errors.New("--user is for a job of your own, without root: leave sudo out, or --user"))
	case user && s.sys.GOOS == "darwin" && s.sys.Darwin < unprivileged:
		add(errors.New("--user needs macOS 26: before that, vmnet needs root; install the job of the system, with sudo and without --user"))
	}
	if s.job.User && (s.sys.Home == "" || s.sys.GOOS != "darwin" && s.sys.RuntimeDir == "") {
		add(errors.New("HOME or XDG_RUNTIME_DIR is not set: log in as the user, a su or sudo to it is not enough"))
	}
	return faults
}

// managerFault tells when there is no manager to give the job to.
func (s *Service) managerFault() error {
	const instead = "run the daemon yourself, as in \"socket_vmnet2 --vmnet-gateway=192.168.105.1 SOCKET\", from whatever starts programs here"
	program, manager := "launchctl", "launchd"
	if s.sys.GOOS != "darwin" {
		program, manager = "systemctl", "systemd"
	}
	if err := s.sys.Find(program); err != nil {
		return fmt.Errorf("there is no %s, so nothing manages services as %s does: %s: %w", program, manager, instead, err)
	}
	if m := s.sys.Manager(); s.sys.GOOS != "darwin" && m != "linux-systemd" {
		return fmt.Errorf("systemd does not run here (%s does, by the looks of it): %s", m, instead)
	}
	return nil
}

// installFaults are what stands in the way of an installation.
func (s *Service) installFaults(ctx context.Context) []error {
	faults := s.commonFaults(ctx)
	for _, fault := range []error{s.programFault(), s.groupFault(), s.directoryFault(), s.jobFault(ctx)} {
		if fault != nil {
			faults = append(faults, fault)
		}
	}
	return faults
}

// programFault tells what is wrong with the program, or with its path: what the system starts must be root's to change alone.
func (s *Service) programFault() error {
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
	if err := pathrules.Check(s.job.Program, pathrules.Options{Root: s.sys.Root, AllowSpace: true}); err != nil {
		return fmt.Errorf("whoever can change the program could have it run by the system: %w", err)
	}
	return nil
}

// groupFault tells when systemd could not start the service for want of its group. The default one is made if need be.
func (s *Service) groupFault() error {
	if s.job.Group == "" || s.job.Group == linuxGroup || s.job.User {
		return nil
	}
	if _, err := s.sys.Group(s.job.Group); err != nil {
		return fmt.Errorf("there is no group %s for the socket; make it with \"groupadd --system %[1]s\", or choose another with --socket-group=GROUP behind --", s.job.Group)
	}
	return nil
}

// directoryFault tries whether the job's file can be written, before anything is stopped.
func (s *Service) directoryFault() error {
	dir := "/Library/LaunchDaemons"
	if s.sys.GOOS != "darwin" {
		dir = "/etc/systemd/system"
	}
	if s.job.User || s.sys.UID != 0 { // theirs is made on the way; the other has been refused already
		return nil
	}
	f, err := os.CreateTemp(s.sys.at(dir), ".socket_vmnet2-")
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the name of this file tells nobody anything
		}
		return fmt.Errorf("no job can be written to %s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// foreign are jobs that serve the same socket, and how each of them is stopped. A label ends in * where there are several.
var foreign = []struct{ label, stop string }{
	{"io.github.lima-vm.socket_vmnet*", "sudo launchctl bootout system/LABEL"},
	{"homebrew.mxcl.socket_vmnet", "sudo brew services stop socket_vmnet"},
	{"homebrew.mxcl.socket_vmnet2", "sudo brew services stop socket_vmnet2"},
	{"org.macports.socket_vmnet", "sudo port unload socket_vmnet"},
	{labelBase + ".*", "sudo launchctl bootout system/LABEL"},
}

// jobFault finds another job, or somebody else, at the socket.
func (s *Service) jobFault(ctx context.Context) error {
	if s.sys.GOOS == "darwin" {
		for _, f := range foreign {
			if err := s.foreignJob(ctx, f.label, f.stop); err != nil {
				return err
			}
		}
	}
	if before, err := s.manager.state(ctx); err != nil || before.installed() || before.loaded {
		return nil // what serves is this very job
	}
	if s.sys.Reach(s.job.Socket) != nil {
		return nil
	}
	return fmt.Errorf("something serves %s already: stop it first, or choose another SOCKET behind --; \"sudo lsof %[1]s\" tells what it is", s.job.Socket)
}

// public is a path as it is written mostly: on macOS /var is a link to /private/var.
func public(path string) string {
	path = filepath.Clean(path)
	if rest, ok := strings.CutPrefix(path, "/private/"); ok && slices.Contains([]string{"var", "tmp", "etc"}, strings.SplitN(rest, "/", 2)[0]) {
		return "/" + rest
	}
	return path
}

// foreignJob finds jobs of the system by this label that are loaded and serve the same socket.
func (s *Service) foreignJob(ctx context.Context, label, stop string) error {
	const dir = "/Library/LaunchDaemons"
	paths, err := filepath.Glob(s.sys.at(dir + "/" + label + ".plist"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".plist")
		text, err := os.ReadFile(path)
		if err != nil || name == s.job.Name && !s.job.User {
			continue
		}
		if args := launchdArguments(string(text)); len(args) == 0 || public(args[len(args)-1]) != public(s.job.Socket) {
			continue
		}
		if r, err := s.sys.Run(ctx, "launchctl", "print", "system/"+name); err != nil || r.Code != 0 {
			continue
		}
		return fmt.Errorf("the job %s serves %s: stop it first, with %q", name, s.job.Socket, strings.ReplaceAll(stop, "LABEL", name))
	}
	return nil
}
