// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// help is the usage text of a program or one of its commands.
func help(t *testing.T, command string) string {
	t.Helper()
	out, err := run(t, append(strings.Fields(command), "--help")...)
	require.NoError(t, err)
	return out
}

// commandNames are the names of socket_vmnet2's commands.
func commandNames(t *testing.T) (names []string) {
	t.Helper()
	_, lines, ok := strings.Cut(help(t, "socket_vmnet2"), "each with a --help of its own:\n")
	require.True(t, ok)
	lines, _, _ = strings.Cut(lines, "\n\n")
	for line := range strings.Lines(lines) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

var optionHead = regexp.MustCompile(`(?m)^( *)(?:-[a-z], )?(--[a-z][a-z0-9-]*=?)(\S*)`)

// options are what a usage text has: those with an argument end with an equals sign.
func optionWords(t *testing.T, command string) (words []string) {
	t.Helper()
	indent := "  "
	if command == "socket_vmnet" {
		indent = ""
	}
	for _, m := range optionHead.FindAllStringSubmatch(help(t, command), -1) {
		if m[1] == indent {
			words = append(words, m[2])
		}
	}
	require.NotEmpty(t, words)
	return words
}

// needTool finds a program, or skips.
func needTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name)
	}
	return path
}

// missing skips, but not in CI on Linux. On a Mac not all of it is there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
		t.Fatalf("%s is missing: run test/e2e/setup.sh tools", what)
	}
	t.Skipf("%s is missing: run test/e2e/setup.sh tools", what)
}

// remarks say of each option of socket_vmnet what differs here; empty where nothing does.
var remarks = map[string]string{
	"socket-group":             "where the default, `staff`, does not exist or may not be set, the socket has the daemon's own group, with a line in the log",
	"vmnet-mode":               "the embedded network has no `bridged`",
	"vmnet-interface":          "",
	"vmnet-gateway":            "if another program has the subnet, waits for it up to 5 s",
	"vmnet-dhcp-end":           "an address outside of the subnet is refused at the start",
	"vmnet-mask":               "checked at the start",
	"vmnet-interface-id":       "the id of the daemon's own interface; those of clients are made from it and their MAC addresses. The embedded network warns and ignores it",
	"vmnet-network-identifier": "on the embedded network it means “no DHCP”, as on vmnet",
	"vmnet-nat66-prefix":       "the embedded network has no IPv6: it warns and ignores it",
	"vmnet-disable-dhcp":       "macOS 26, as before; the embedded network on any system",
	"pidfile":                  "appears when the daemon serves, is never empty, and is not there if it could not start",
	"help":                     "",
	"version":                  "",
}

// option writes one for a table.
func optionOf(it compat.Item) string {
	text := "--" + it.Name
	if it.Arg != "" {
		text += "=" + strings.ReplaceAll(it.Arg, "|", `\|`)
	}
	if it.Short != "" {
		return "`-" + it.Short + "`, `" + text + "`"
	}
	return "`" + text + "`"
}

// table is the one of MIGRATION.md.
func table(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	old := map[string]bool{}
	fmt.Fprintf(&b, "| option | what differs |\n| --- | --- |\n")
	for _, it := range compat.Items(compat.Flags(compat.Old)) {
		remark, ok := remarks[it.Name]
		assert.True(t, ok, "--%s: say in remarks what differs", it.Name)
		old[it.Name] = true
		fmt.Fprintf(&b, "| %s | %s |\n", optionOf(it), remark)
	}
	for name := range remarks {
		assert.True(t, old[name], "--%s is no option of socket_vmnet", name)
	}
	for _, it := range compat.Items(compat.Flags(compat.New)) {
		delete(old, it.Name)
	}
	assert.Empty(t, old, "socket_vmnet2 has all options of socket_vmnet")
	return b.String()
}

// update has the tables of the pages written again.
var update = flag.Bool("update", false, "write what is made from the programs into the pages")

// marks are around what a test writes into a page.
const begin, end = "<!-- options: made by go test ./test/docs -args -update -->\n\n", "\n<!-- options: end -->"

// TestOptionTable: the table of options has those of the program.
func TestOptionTable(t *testing.T) {
	path := filepath.Join(root, "MIGRATION.md")
	page := read(t, "MIGRATION.md")
	before, rest, ok := strings.Cut(page, begin)
	require.True(t, ok, "MIGRATION.md has no %q", begin)
	got, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := table(t)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o600))
		return
	}
	assert.Equal(t, want, got, "go test ./test/docs -args -update writes it")
}
