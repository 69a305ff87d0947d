// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A shown is what a dry run prints.
type shown struct {
	written  map[string]string
	removed  []string
	commands []string
}

func parseDry(t *testing.T, out string) shown {
	t.Helper()
	s := shown{written: map[string]string{}}
	file := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "write":
			file = strings.TrimSuffix(rest, ", mode 0644:")
			s.written[file] = ""
		case "|":
			s.written[file] += rest + "\n"
		case "run":
			s.commands = append(s.commands, rest)
		case "remove":
			s.removed = append(s.removed, rest)
		case "make":
		default:
			assert.Contains(t, line, "there is nothing to do", "a dry run prints what it would do")
		}
	}
	return s
}

// filesBelow is every file below dir, with what is in it.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}
