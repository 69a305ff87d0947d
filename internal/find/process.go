// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// A Process is one that runs.
type Process struct {
	PID, PPID, UID int
	Args           []string
	Dir            string // its working directory; empty: not known
}

// A Runner runs a program to its end and returns what it wrote to its standard output.
type Runner func(ctx context.Context, name string, args ...string) ([]byte, error)

// Subcommands are the first arguments that make socket_vmnet2 something else than a daemon.
var Subcommands = []string{
	"capture", "clients", "doctor", "exec", "help", "install", "kick", "log-level", "migrate", "rollback", "selftest", "service", "status", "try",
	"upgrade", "version",
}

// IsDaemon tells whether argv runs a daemon: socket_vmnet or socket_vmnet2 by whatever path, and no subcommand of the latter.
func IsDaemon(argv []string) bool {
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

// Parse reads a daemon's command line as the daemon would; nil for one that it would refuse.
func Parse(argv []string) *compat.Config {
	if len(argv) == 0 {
		return nil
	}
	cfg, _ := compat.Parse(compat.PersonalityOf(argv[0]), argv, compat.IO{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	})
	return cfg
}

// A server is a process that serves a socket, as its arguments say.
type server struct {
	Process
	socket     string // absolute
	runtimeDir string // absolute; empty: SOCKET.d
}

// daemonsOf are the daemons among the processes. Where these cannot be listed, there are none.
func daemonsOf(s System) []server {
	list, _ := s.Processes()
	var all []server
	for _, p := range list {
		if !IsDaemon(p.Args) {
			continue
		}
		cfg := Parse(p.Args)
		if cfg == nil {
			continue
		}
		d := server{Process: p, socket: p.absolute(cfg.SocketPath)}
		if cfg.RuntimeDir != compat.RuntimeDirNone {
			d.runtimeDir = p.absolute(cfg.RuntimeDir)
		}
		if d.socket != "" {
			all = append(all, d)
		}
	}
	return all
}

// absolute is a path of the process; empty if it is empty, or relative to a directory that nobody knows.
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
		var p Process
		var errs [3]error
		p.PID, errs[0] = strconv.Atoi(words[0])
		p.PPID, errs[1] = strconv.Atoi(words[1])
		p.UID, errs[2] = strconv.Atoi(words[2])
		if errs != [3]error{} {
			continue
		}
		p.Args = words[3:]
		list = append(list, p)
	}
	return list
}

// PS lists the processes by means of ps.
func PS(run Runner) func(context.Context) ([]Process, error) {
	return func(ctx context.Context) ([]Process, error) {
		// Without -ww some of them cut lines at the width of a terminal.
		out, err := run(ctx, "ps", "-axww", "-o", "pid=,ppid=,uid=,args=")
		if err != nil {
			return nil, fmt.Errorf("ps failed: %w", err)
		}
		return ParsePS(string(out)), nil
	}
}
