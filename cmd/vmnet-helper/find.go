// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// configName is the configuration file below ~/.config and /etc. It has one daemon per line, named by its stream socket:
//
//	# the networks of this machine
//	shared = /var/run/socket_vmnet
//	host = /private/var/run/lima/socket_vmnet.host
//	bridged.en0 = /var/run/socket_vmnet.bridged.en0
//	network.lab = /var/run/socket_vmnet.lab
//
// The user's file comes first, for each line. Lines that begin with # are comments.
const configName = "socket_vmnet2/vmnet-helper.conf"

// prefixes are where socket_vmnet and socket_vmnet2 have their sockets when installed from source, by Homebrew on either
// processor, and when Lima manages them.
var prefixes = []string{
	"/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet",
}

// limaPrefix begins the paths of the daemons that Lima starts, named by network.
var limaPrefix = "/private/var/run/lima/socket_vmnet"

// A place is where a daemon may be.
type place struct {
	socket string
	from   string // what named it: an option or a file; empty for a usual path
}

// find returns where the daemon for c may be, in the order in which to try.
func find(c *config, files []string) ([]place, error) {
	if c.daemon != "" {
		return []place{{c.daemon, "--daemon"}}, nil
	}
	key := c.key()
	for _, file := range files {
		all, err := readConfig(file)
		if err != nil {
			return nil, err
		}
		if socket, ok := all[key]; ok {
			return []place{{socket, file}}, nil
		}
	}
	if c.mode == "" {
		return nil, fmt.Errorf("no network %q: give the line \"%s = SOCKET\" to %s", c.network, key, strings.Join(files, " or "))
	}
	return usual(c), nil
}

// usual returns the paths at which daemons for c's mode are usually found.
func usual(c *config) (all []place) {
	suffix := ""
	switch c.mode {
	case "host":
		suffix = ".host"
	case "bridged":
		suffix = ".bridged." + c.sharedInterface
	}
	for _, p := range prefixes {
		all = append(all, place{socket: p + suffix})
	}
	return append(all, place{socket: limaPrefix + "." + c.mode})
}

// key is what the configuration file calls c's network.
func (c *config) key() string {
	switch {
	case c.network != "":
		return "network." + c.network
	case c.mode == "bridged":
		return "bridged." + c.sharedInterface
	default:
		return c.mode
	}
}

// configFiles are the user's file and the system's.
func configFiles() []string {
	var files []string
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		// Not HOME, which may be root's behind sudo.
		u, err := user.LookupId(strconv.Itoa(os.Getuid()))
		if err == nil && u.HomeDir != "" {
			dir = filepath.Join(u.HomeDir, ".config")
		} else if dir, err = os.UserHomeDir(); err == nil {
			dir = filepath.Join(dir, ".config")
		}
	}
	if filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, configName))
	}
	return append(files, filepath.Join("/etc", configName))
}

// keys are what lines may begin with.
var keys = regexp.MustCompile(`(?s)^(shared|host|(bridged|network)\..+)$`)

// readConfig reads a configuration file. One that is not there is empty.
func readConfig(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	all := map[string]string{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || !keys.MatchString(key) || !filepath.IsAbs(value) {
			return nil, fmt.Errorf("%s:%d: %q: want shared, host, bridged.INTERFACE or network.NAME, = and a daemon's absolute SOCKET",
				path, i+1, line[:min(len(line), 100)])
		}
		all[key] = value
	}
	return all, nil
}
