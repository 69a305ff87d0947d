// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"io/fs"
	"os"
	"path/filepath"
)

// ReadFile returns the content of a regular file of at most limit bytes, following links as the staged system would. Nothing
// that it opens makes it wait.
func (s System) ReadFile(path string, limit int) ([]byte, error) { return s.readFile(path, limit) }

// Stat tells of the file that path leads to, following links as the staged system would.
func (s System) Stat(path string) (fs.FileInfo, error) {
	at, err := s.resolve(path)
	if err != nil {
		return nil, err
	}
	fi, err := os.Lstat(filepath.Join(s.Root, at))
	return fi, withoutRoot(err, path)
}

// ReadDir returns the first names in a directory, sorted.
func (s System) ReadDir(path string) ([]string, error) {
	names, _, err := s.names(path)
	return names, err
}

// Clean makes foreign text printable and short: it cannot move the cursor or flood the screen.
func Clean(text string) string { return clean(text) }

// SamePath tells whether two paths are one on macOS, where /var, /etc and /tmp are links into /private.
func SamePath(a, b string) bool { return samePath(a, b) }

// Resolve follows the links on the way to path as the staged system would, and returns a path below Root without any.
func (s System) Resolve(path string) (string, error) { return s.resolve(path) }
