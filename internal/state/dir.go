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

// Environment is what Dir depends on.
type Environment struct {
	StateDir string // --state-dir, empty = not given
	GOOS     string
	EUID     int
	PPID     int
	Getenv   func(string) string
}

// Dir chooses the directory for the files:
//
//   - --state-dir, if given;
//   - the first directory of $STATE_DIRECTORY, which systemd sets; a root daemon heeds it only as a child of process 1,
//     because sudo may pass a user's environment on;
//   - for root /var/db/socket_vmnet2 on macOS, else /var/lib/socket_vmnet2;
//   - for a user ~/Library/Application Support/socket_vmnet2 on macOS, else socket_vmnet2 in $XDG_STATE_HOME or
//     ~/.local/state.
func Dir(e Environment) (string, error) {
	if e.StateDir != "" {
		return e.StateDir, nil
	}
	root := e.EUID == 0
	if dir, _, _ := strings.Cut(e.Getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) && (!root || e.PPID == 1) {
		return dir, nil
	}
	if root {
		if e.GOOS == "darwin" {
			return "/var/db/" + program, nil
		}
		return "/var/lib/" + program, nil
	}
	home := e.Getenv("HOME")
	if e.GOOS == "darwin" {
		if !filepath.IsAbs(home) {
			return "", errNoDir
		}
		return filepath.Join(home, "Library", "Application Support", program), nil
	}
	if dir := e.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, program), nil
	}
	if !filepath.IsAbs(home) {
		return "", errNoDir
	}
	return filepath.Join(home, ".local", "state", program), nil
}

// FileName is the name of a network's file: the SHA-256 of the absolute path of its socket.
func FileName(socketPath string) string {
	sum := sha256.Sum256([]byte(socketPath))
	return hex.EncodeToString(sum[:])
}
