// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

var pages = []string{"socket_vmnet2.8", "socket_vmnet.8", "socket_vmnet_client.1"}

// programs is a directory with the programs.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "manual")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"socket_vmnet2", "socket_vmnet"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./cmd/socket_vmnet2")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// help is the usage text of a program or one of its commands.
func help(t *testing.T, command string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	words := strings.Fields(command)
	out, err := exec.Command(filepath.Join(dir, words[0]), append(words[1:], "--help")...).Output()
	require.NoError(t, err)
	return string(out)
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

// TestPagesAreClean: neither mandoc nor groff finds fault. That other pages are not installed here is no fault.
func TestPagesAreClean(t *testing.T) {
	mandoc, groff := needTool(t, "mandoc"), needTool(t, "groff")
	for _, name := range pages {
		path := filepath.Join(root, "docs/man", name)
		out, _ := exec.Command(mandoc, "-T", "lint", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "STYLE: referenced manual not found") && !strings.Contains(line, "outdated mandoc.db") {
				t.Errorf("mandoc: %s", line)
			}
		}
		out, err := exec.Command(groff, "-mdoc", "-ww", "-z", path).CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out), name)
	}
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
	for _, name := range pages {
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
