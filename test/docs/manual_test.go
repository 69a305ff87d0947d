// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// help is the usage text of a program or one of its commands.
func help(t *testing.T, command string) string {
	t.Helper()
	out, err := run(t, append(strings.Fields(command), "--help")...)
	require.NoError(t, err)
	return out
}

// commandNames are the names of socket_vmnet2's commands.
func commandNames(t *testing.T) []string {
	t.Helper()
	_, names, ok := strings.Cut(help(t, "socket_vmnet2"), "each with a --help of its own: ")
	require.True(t, ok)
	names, _, _ = strings.Cut(names, "\n")
	return strings.Split(names, ", ")
}

var optionHead = regexp.MustCompile(`(?m)^(?:-[a-z], )?(--[a-z][a-z0-9-]*=?)(\S*)`)

// options are what a usage text has: those with an argument end with an equals sign.
func optionWords(t *testing.T, command string) (words []string) {
	t.Helper()
	for _, m := range optionHead.FindAllStringSubmatch(help(t, command), -1) {
		words = append(words, m[1])
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

var optionInText = regexp.MustCompile(`(?:^|[\s("])(--[a-z][a-z0-9-]*)`)

// optionsIn are the long options that a text names.
func optionsIn(text string) []string {
	var names []string
	for _, m := range optionInText.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestPagesHaveEveryOption: a page names the options of the usage texts, and no others.
func TestPagesHaveEveryOption(t *testing.T) {
	mandoc := needTool(t, "mandoc")
	want := func(commands ...string) (names []string) {
		for _, c := range commands {
			for _, w := range optionWords(t, c) {
				names = append(names, strings.TrimSuffix(w, "="))
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	all := []string{"socket_vmnet2"}
	for _, name := range commandNames(t) {
		all = append(all, "socket_vmnet2 "+name)
	}
	wanted := map[string][]string{"socket_vmnet2.8": want(all...), "socket_vmnet.8": want("socket_vmnet"), "socket_vmnet_client.1": nil}
	require.Len(t, wanted["socket_vmnet.8"], 13, "socket_vmnet has thirteen")
	for _, name := range []string{"socket_vmnet2.8", "socket_vmnet.8", "socket_vmnet_client.1"} {
		out, err := exec.Command(mandoc, "-T", "utf8", "-O", "width=140", filepath.Join(root, "docs/man", name)).Output()
		require.NoError(t, err)
		text := regexp.MustCompile(`.\x08`).ReplaceAllString(string(out), "") // bold and underlined
		assert.Equal(t, wanted[name], optionsIn(text), name)
		if name == "socket_vmnet2.8" {
			for _, c := range all[1:] {
				assert.Contains(t, text, "\n   "+c+"\n", "a section for the command")
			}
			for _, m := range optionHead.FindAllString(help(t, "socket_vmnet2"), -1) {
				assert.True(t, regexp.MustCompile(`\n     `+regexp.QuoteMeta(m)+`(\n|  )`).MatchString(text), "%s", m)
			}
		}
	}
}
