// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// parseArgs reads a daemon's command line as the daemon would. What it would refuse leaves only the program.
func parseArgs(argv []string) daemonArgs {
	if len(argv) == 0 {
		return daemonArgs{}
	}
	d := daemonArgs{Program: clean(argv[0])}
	cfg := find.Parse(argv)
	if cfg == nil {
		return d
	}
	d.Socket, d.Pidfile, d.Interface = clean(cfg.SocketPath), clean(cfg.Pidfile), clean(cfg.Interface)
	d.Mode = string(cfg.Mode)
	if cfg.Gateway.IsValid() {
		d.Gateway, d.Subnet = cfg.Gateway.String(), cfg.Subnet.String()
	}
	return d
}

// samePath tells whether two paths are one on macOS, where /var, /etc and /tmp are links into /private.
func samePath(a, b string) bool { return a != "" && public(a) == public(b) }

// public is path without the /private of macOS.
func public(path string) string {
	for _, dir := range []string{"/var/", "/etc/", "/tmp/"} {
		if rest, ok := strings.CutPrefix(path, "/private"); ok && strings.HasPrefix(rest, dir) {
			return rest
		}
	}
	return path
}

// command is a shell command of these words.
func command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shell.Quote(w)
	}
	return strings.Join(quoted, " ")
}
