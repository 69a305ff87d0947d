// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// A Process is one that runs.
type Process struct {
	PID  int      `json:"pid"`
	PPID int      `json:"-"`
	UID  int      `json:"uid"`
	Args []string `json:"arguments"`
	Dir  string   `json:"-"` // its working directory; empty: not known
}

// A setup is what a daemon's command line asks for. Of one that the daemon would refuse, only Program is known.
type setup struct {
	Program    string       `json:"program"`
	Socket     string       `json:"socket,omitempty"`
	Mode       string       `json:"mode,omitempty"`
	Interface  string       `json:"interface,omitempty"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
	Subnet     netip.Prefix `json:"subnet,omitzero"`
	Pidfile    string       `json:"pidfile,omitempty"`
	RuntimeDir string       `json:"-"` // of --runtime-dir; empty: SOCKET.d
	By         string       `json:"-"` // what has this command line, in Setups
}

// A Server is a process that is a daemon.
type Server struct {
	Process
	setup
	Ours      bool   `json:"socket_vmnet2"`
	StartedBy string `json:"started_by"`
}

// Subcommands are the first arguments that make socket_vmnet2 something else than a daemon.
var Subcommands = []string{
	"capture", "clients", "doctor", "exec", "help", "install", "kick", "log-level", "migrate", "rollback", "selftest", "service", "status", "try",
	"upgrade", "version",
}

// isDaemon tells whether argv runs a daemon: socket_vmnet or socket_vmnet2 by whatever path, and no subcommand of the latter.
func isDaemon(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	base := filepath.Base(argv[0])
	if !strings.HasPrefix(base, "socket_vmnet") || strings.HasPrefix(base, "socket_vmnet_client") {
		return false
	}
	name, _ := compat.Subcommand(argv, append([]string{"gateway"}, Subcommands...)) // a daemon's own gateway, which no one types
	return name == "" && !slices.Contains(argv[1:], "--help") && !slices.Contains(argv[1:], "--version")
}

// serversIn are the daemons among processes.
func serversIn(list []Process) (all []Server) {
	for _, p := range list {
		if !isDaemon(p.Args) {
			continue
		}
		s := Server{Process: p, setup: setupOf(p.Args)}
		s.Ours = compat.PersonalityOf(s.Program) == compat.New
		for _, path := range []*string{&s.Socket, &s.Pidfile, &s.RuntimeDir} {
			*path = p.absolute(*path)
		}
		all = append(all, s)
	}
	return all
}

// setupOf reads a daemon's command line as the daemon would.
func setupOf(argv []string) setup {
	if len(argv) == 0 {
		return setup{}
	}
	s := setup{Program: argv[0]}
	cfg, _ := compat.Parse(compat.PersonalityOf(argv[0]), argv, compat.IO{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	})
	if cfg == nil {
		return s
	}
	s.Socket, s.Pidfile, s.Interface, s.Mode = cfg.SocketPath, cfg.Pidfile, cfg.Interface, string(cfg.Mode)
	if cfg.Gateway.IsValid() {
		s.Gateway, s.Subnet = cfg.Gateway, cfg.Subnet
	}
	if cfg.RuntimeDir != compat.RuntimeDirNone {
		s.RuntimeDir = cfg.RuntimeDir
	}
	return s
}

// absolute is a path of the process; empty if it is empty, or relative to a directory that is not known.
func (p Process) absolute(path string) string {
	switch {
	case path == "" || filepath.IsAbs(path):
		return path
	case p.Dir == "":
		return ""
	}
	return filepath.Join(p.Dir, path)
}

// ParsePS reads the output of ps -axww -o pid=,ppid=,uid=,args=. A space in an argument cannot be told from one between two.
func ParsePS(out string) []Process {
	var list []Process
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		p := Process{Args: words[3:]}
		if _, err := fmt.Sscanf(strings.Join(words[:3], " "), "%d %d %d", &p.PID, &p.PPID, &p.UID); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// ps lists the processes by means of ps.
func ps(run runner) func(context.Context) ([]Process, error) {
	return func(ctx context.Context) ([]Process, error) {
		// Without -ww some of them cut lines at the width of a terminal.
		out, err := run(ctx, "ps", "-axww", "-o", "pid=,ppid=,uid=,args=")
		if err != nil {
			return nil, fmt.Errorf("ps failed: %w", err)
		}
		return ParsePS(string(out)), nil
	}
}
