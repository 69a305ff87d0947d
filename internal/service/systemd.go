// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// systemd is the manager of Linux.
type systemd struct {
	sys *System
	job *Job
}

func (d *systemd) dir() string {
	if d.job.User {
		return filepath.Join(d.sys.Home, ".config/systemd/user")
	}
	return "/etc/systemd/system"
}

func (d *systemd) service() string     { return d.job.Name + ".service" }
func (d *systemd) socket() string      { return d.job.Name + ".socket" }
func (d *systemd) servicePath() string { return d.dir() + "/" + d.service() }
func (d *systemd) socketPath() string  { return d.dir() + "/" + d.socket() }

func (d *systemd) logs() string {
	if d.job.User {
		return "journalctl --user -u " + d.service()
	}
	return "journalctl -u " + d.service()
}

// systemctl is a command line of ours, with --user where the library has it.
func (d *systemd) systemctl(verb string, units ...string) []string {
	argv := []string{"systemctl", verb}
	if d.job.User {
		argv = append(argv, "--user")
	}
	return append(argv, units...)
}

func (d *systemd) state(ctx context.Context) (state, error) {
	files, err := d.sys.read(d.servicePath(), d.socketPath())
	if err != nil {
		return state{}, err
	}
	s := state{files: files}
	r, err := d.sys.Run(ctx, append(d.systemctl("show"), "--property=ActiveState,MainPID,UnitFileState,LoadState", d.service())...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", r.Code, strings.TrimSpace(r.Stderr))
	}
	if err != nil {
		return s, fmt.Errorf("ask systemd: %w", err)
	}
	for line := range strings.Lines(r.Stdout) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "ActiveState":
			s.active = value == "active" || value == "activating" || value == "reloading"
		case "MainPID":
			s.pid, _ = strconv.Atoi(value)
		case "UnitFileState":
			s.enabled = value == "enabled"
		case "LoadState":
			s.loaded = value == "loaded"
		}
	}
	return s, nil
}

// files are those that there should be.
func (d *systemd) files() (service file, socket *file, err error) {
	text, err := d.job.text("systemd.service.tmpl")
	if err != nil {
		return file{}, nil, err
	}
	service = file{d.servicePath(), text}
	if d.job.Activated {
		if text, err = d.job.text("systemd.socket.tmpl"); err != nil {
			return file{}, nil, err
		}
		socket = &file{d.socketPath(), text}
	}
	return service, socket, nil
}

func (d *systemd) install(s state, p *plan) error {
	service, socket, err := d.files()
	if err != nil {
		return err
	}
	had, hadSocket := s.files[d.socketPath()]
	same := s.files[service.path] == service.text && (socket == nil && !hadSocket || socket != nil && had == socket.text)
	if same && s.enabled && d.userThere() {
		if !s.active {
			d.start(s, p)
		}
		return nil
	}
	d.stop(s, p)
	if err := d.makeUser(p); err != nil {
		return err
	}
	if hadSocket && socket == nil {
		p.command(d.systemctl("disable", d.socket())...)
		p.remove(d.socketPath())
	}
	if d.job.User {
		p.directory(d.dir(), 0o755)
	}
	if socket != nil {
		p.write(*socket)
	}
	if _, there := s.files[service.path]; there {
		p.remove(service.path) // the library writes no file that is there
	}
	commands := []string{"run " + shellLine(d.systemctl("enable", d.service())), "run " + shellLine(d.systemctl("daemon-reload"))}
	p.library(&service, commands, func() error {
		if err := d.sys.Library.Install(d.job, service.text); err != nil {
			return d.failed("enable", err)
		}
		return d.sys.installed(service)
	})
	if socket != nil {
		p.command(d.systemctl("enable", d.socket())...)
	}
	d.starting(socket != nil, p)
	return nil
}

// sysusers is where the user of the service is said to systemd.
const sysusers = "/etc/sysusers.d/socket_vmnet2.conf"

// userThere tells whether the user and the group exist that the service runs as.
func (d *systemd) userThere() bool {
	if d.job.User {
		return true
	}
	_, err := d.sys.Group(d.job.Group)
	return err == nil && d.sys.Account(linuxUser) == nil
}

// makeUser makes the user that the service runs as, unless it is there.
func (d *systemd) makeUser(p *plan) error {
	if d.userThere() {
		return nil
	}
	text, err := d.job.text("sysusers.conf.tmpl")
	if err != nil {
		return err
	}
	p.directory(filepath.Dir(sysusers), 0o755)
	p.write(file{sysusers, text})
	p.command("systemd-sysusers", sysusers)
	return nil
}

// forgetUser takes the file of the user away with the last service. The user stays: its number could be given to another, and with
// it what the networks remember.
func (d *systemd) forgetUser(p *plan) {
	others, err := filepath.Glob(d.sys.at(d.dir() + "/" + unitBase + "*.service"))
	others = slices.DeleteFunc(others, func(path string) bool { return filepath.Base(path) == d.service() })
	if files, _ := d.sys.read(sysusers); err != nil || d.job.User || len(others) > 0 || len(files) == 0 {
		return
	}
	p.remove(sysusers)
}

// failed tells of a command of the library's, which says little itself.
func (d *systemd) failed(verb string, err error) error {
	return fmt.Errorf("%s: %w; %s tells more", shellLine(d.systemctl(verb, d.service())), err, d.logs())
}

func (d *systemd) uninstall(s state, p *plan) {
	d.stop(s, p)
	if _, there := s.files[d.socketPath()]; there {
		p.command(d.systemctl("disable", d.socket())...)
		p.remove(d.socketPath())
	}
	if _, there := s.files[d.servicePath()]; !there {
		return
	}
	p.library(nil, []string{
		"run " + shellLine(d.systemctl("disable", d.service())),
		"remove " + d.servicePath(),
		"run " + shellLine(d.systemctl("daemon-reload")),
	}, func() error {
		if err := d.sys.Library.Uninstall(d.job); err != nil {
			return d.failed("disable", err)
		}
		return nil
	})
	d.forgetUser(p)
}

func (d *systemd) start(s state, p *plan) {
	_, activated := s.files[d.socketPath()]
	d.starting(activated, p)
}

// starting starts the socket in front of the service: it cannot be made any more once the daemon has made its own.
func (d *systemd) starting(activated bool, p *plan) {
	if activated {
		p.command(d.systemctl("start", d.socket())...)
	}
	p.library(nil, []string{"run " + shellLine(d.systemctl("start", d.service()))}, func() error {
		if err := d.sys.Library.Start(d.job); err != nil {
			return d.failed("start", err)
		}
		return nil
	})
}

// stop stops the socket first: the next client would start the service again.
func (d *systemd) stop(s state, p *plan) {
	if _, activated := s.files[d.socketPath()]; activated {
		p.command(d.systemctl("stop", d.socket())...)
	}
	if !s.active {
		return
	}
	p.library(nil, []string{"run " + shellLine(d.systemctl("stop", d.service()))}, func() error {
		if err := d.sys.Library.Stop(d.job); err != nil {
			return d.failed("stop", err)
		}
		return nil
	})
}

// restart leaves an activated socket as it is: clients wait in it.
func (d *systemd) restart(s state, p *plan) {
	if !s.active {
		d.start(s, p)
		return
	}
	p.library(nil, []string{"run " + shellLine(d.systemctl("restart", d.service()))}, func() error {
		if err := d.sys.Library.Restart(d.job); err != nil {
			return d.failed("restart", err)
		}
		return nil
	})
}
