// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

const root = "../.."

var pages = []string{"socket_vmnet2.8", "socket_vmnet.8", "socket_vmnet_client.1"}

// all are the usage texts of programs that are built once.
var all = sync.OnceValues(func() (programs, error) {
	dir, err := os.MkdirTemp("", "manual")
	if err != nil {
		return programs{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	progs, err := buildPrograms(context.Background(), "go", root, dir)
	if err != nil {
		return programs{}, err
	}
	return progs.usages(context.Background())
})

// needTool finds a program, or skips.
func needTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name)
	}
	return path
}

// missing skips, but not in CI on Linux. On a Mac not all of it can be had.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
		t.Fatalf("%s is missing: run test/e2e/setup.sh tools", what)
	}
	t.Skipf("%s is missing: run test/e2e/setup.sh tools", what)
}

// TestFilesAreCurrent: what is in the tree is what the programs say, and a file that is not is found out.
func TestFilesAreCurrent(t *testing.T) {
	progs, err := all()
	require.NoError(t, err)
	files, err := generate(progs)
	require.NoError(t, err)
	require.Len(t, files, 5)
	require.NoError(t, compare(root, files))

	progs.daemon.synopsis = []string{"[OPTION]... PATH"} // this copy's only
	changed, err := generate(progs)
	require.NoError(t, err)
	err = compare(root, changed)
	require.ErrorContains(t, err, "run make manual")
	assert.ErrorContains(t, err, "docs/man/socket_vmnet2.8")
	assert.NotContains(t, err.Error(), "socket_vmnet_client.1")
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
	progs, err := all()
	require.NoError(t, err)
	require.NotEmpty(t, progs.commands)
	want := func(usages ...usage) (names []string) {
		for _, u := range usages {
			for _, it := range u.options() {
				names = append(names, "--"+it.long)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	wanted := map[string][]string{
		"socket_vmnet2.8":       want(append([]usage{progs.daemon}, progs.commands...)...),
		"socket_vmnet.8":        want(progs.old),
		"socket_vmnet_client.1": nil,
	}
	require.Len(t, wanted["socket_vmnet.8"], 13, "socket_vmnet has thirteen")
	for _, name := range pages {
		out, err := exec.Command(mandoc, "-T", "utf8", "-O", "width=140", filepath.Join(root, "docs/man", name)).Output()
		require.NoError(t, err)
		text := regexp.MustCompile(`.\x08`).ReplaceAllString(string(out), "") // bold and underlined
		assert.Equal(t, wanted[name], optionsIn(text), name)
		if name == "socket_vmnet2.8" {
			for _, u := range progs.commands {
				assert.Contains(t, text, "\n   "+u.command+"\n", "a section for the command")
			}
			for _, it := range progs.daemon.options() {
				assert.True(t, regexp.MustCompile(`\n     `+regexp.QuoteMeta(it.head())+`(\n|  )`).MatchString(text), "%s", it.head())
			}
		}
	}
}
