// SPDX-License-Identifier: Apache-2.0

package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
)

// program is the name of the directory that holds the files, in a directory that others use too.
const program = "socket_vmnet2"

// errNoDir is returned by Dir when nothing tells where state may be kept.
var errNoDir = errors.New("choose state directory: neither XDG_STATE_HOME nor HOME is set; use --state-dir")

// Dir chooses the directory for the files of a daemon of euid:
//
//   - given, which is --state-dir's;
//   - the first directory of $STATE_DIRECTORY, which systemd sets; inherit.DropUnheeded removes one that is not systemd's;
//   - for root /var/db/socket_vmnet2 on macOS, else /var/lib/socket_vmnet2;
//   - for a user ~/Library/Application Support/socket_vmnet2 on macOS, else socket_vmnet2 in $XDG_STATE_HOME or
//     ~/.local/state.
func Dir(given, goos string, euid int, getenv func(string) string) (string, error) {
	if given != "" {
		return given, nil
	}
	systemd, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	xdg, home := getenv("XDG_STATE_HOME"), getenv("HOME")
	switch root, mac := euid == 0, goos == "darwin"; {
	case filepath.IsAbs(systemd):
		return systemd, nil
	case root && mac:
		return "/var/db/" + program, nil
	case root:
		return "/var/lib/" + program, nil
	case !mac && filepath.IsAbs(xdg):
		return filepath.Join(xdg, program), nil
	case !filepath.IsAbs(home):
		return "", errNoDir
	case mac:
		return filepath.Join(home, "Library", "Application Support", program), nil
	}
	return filepath.Join(home, ".local", "state", program), nil
}

// FileName is the name of a network's file: the SHA-256 of the absolute path of its socket.
func FileName(socketPath string) string {
	sum := sha256.Sum256([]byte(socketPath))
	return hex.EncodeToString(sum[:])
}
