// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// systemd is the manager of Linux.
type systemd struct {
	sys *system
	job *job
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

func (d *systemd) arguments(s state) []string {
	return unitArguments(s.files[d.servicePath()], d.sys.userRuntime())
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
		return s, fmt.Errorf("systemd cannot be asked: %w", err)
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

func (d *systemd) install(s state, p *plan) error {
	service, err := d.job.text("systemd.service.tmpl")
	if err != nil {
		return err
	}
	socket := ""
	if d.job.Activated {
		if socket, err = d.job.text("systemd.socket.tmpl"); err != nil {
			return err
		}
	}
	if s.files[d.servicePath()] == service && s.files[d.socketPath()] == socket && s.enabled && d.userThere() {
		if !s.active {
			d.start(s, p)
		}
		return nil
	}
	if !d.userThere() {
		// The user stays when the service goes: its number could be given to another, and with it what the networks remember.
		p.run("systemd-sysusers", "--inline", "u "+linuxUser+` - "Networks for virtual machines"`, "g "+linuxGroup+" -")
	}
	if d.job.User {
		p.directory(d.dir(), 0o755)
	}
	p.write(d.servicePath(), service)
	if d.job.Activated {
		p.write(d.socketPath(), socket)
	}
	d.stop(s, p)
	enabled := []string{d.service()}
	if _, had := s.files[d.socketPath()]; had && !d.job.Activated {
		p.run(d.systemctl("disable", d.socket())...)
		p.remove(d.socketPath())
	} else if d.job.Activated {
		enabled = append(enabled, d.socket())
	}
	p.run(d.systemctl("daemon-reload")...)
	p.run(d.systemctl("enable", enabled...)...)
	d.starting(d.job.Activated, p)
	return nil
}

// userThere tells whether the user and the group exist that the service runs as.
func (d *systemd) userThere() bool {
	if d.job.User {
		return true
	}
	_, noGroup := user.LookupGroup(d.job.Group)
	_, noUser := user.Lookup(linuxUser)
	return noGroup == nil && noUser == nil
}

// uninstall has the library disable the unit, remove its file and have systemd forget it.
func (d *systemd) uninstall(s state, p *plan) {
	d.stop(s, p)
	if _, there := s.files[d.socketPath()]; there {
		p.run(d.systemctl("disable", d.socket())...)
		p.remove(d.socketPath())
	}
	if _, there := s.files[d.servicePath()]; there {
		p.control(d.job, "uninstall", d.logs(), "run "+printable.Command(d.systemctl("disable", d.service())...),
			"remove "+d.servicePath(), "run "+printable.Command(d.systemctl("daemon-reload")...))
	}
}

func (d *systemd) start(s state, p *plan) {
	_, activated := s.files[d.socketPath()]
	d.starting(activated, p)
}

// starting starts the socket in front of the service: it cannot be made any more once the daemon has made its own.
func (d *systemd) starting(activated bool, p *plan) {
	if activated {
		p.run(d.systemctl("start", d.socket())...)
	}
	p.control(d.job, "start", d.logs(), "run "+printable.Command(d.systemctl("start", d.service())...))
}

// stop stops the socket first: the next client would start the service again.
func (d *systemd) stop(s state, p *plan) {
	if _, activated := s.files[d.socketPath()]; activated {
		p.run(d.systemctl("stop", d.socket())...)
	}
	if s.active {
		p.control(d.job, "stop", d.logs(), "run "+printable.Command(d.systemctl("stop", d.service())...))
	}
}

// restart leaves an activated socket as it is: clients wait in it.
func (d *systemd) restart(s state, p *plan) {
	if !s.active {
		d.start(s, p)
		return
	}
	p.control(d.job, "restart", d.logs(), "run "+printable.Command(d.systemctl("restart", d.service())...))
}
