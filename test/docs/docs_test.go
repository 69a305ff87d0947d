// SPDX-License-Identifier: Apache-2.0

// Package docs tries what the pages say: every command of a shell block is run or held against what knows it, every block of data
// is parsed, tables that can be made from the programs are made from them, and names of packages and functions must exist.
//
// Our own programs are built and run in a sandbox: paths are put below a temporary directory, and a daemon with the embedded
// network serves the clients. Programs of others are looked up in a table of what they understand. A command that nobody knows is
// an error with its file and line.
package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/lab"
)

// patience is how long anything may take.
const patience = 30 * time.Second

// root is the repository.
const root = "../.."

// update has the tables of the pages written again.
var update = flag.Bool("update", false, "write the tables of the pages that are made from the programs")

// box is where the commands are run.
var box *sandbox

func TestMain(m *testing.M) {
	if program := filepath.Base(os.Args[0]); isFake(program) {
		if err := runFake(program, os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
			os.Exit(1)
		}
		return
	}
	lab.DropInherited() // so that fd=3 is as the pages have it
	flag.Parse()
	os.Exit(func() int {
		var err error
		if box, err = newSandbox(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer box.close()
		return m.Run()
	}())
}

// pages are all that a person reads, by path from the root.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"docs", "test", "attach", "etc", "Formula"} {
		_ = filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if err == nil && strings.HasSuffix(path, ".md") {
				all = append(all, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
			}
			return nil
		})
	}
	top, err := filepath.Glob(root + "/*.md")
	require.NoError(t, err)
	for _, path := range top {
		if name := filepath.Base(path); name != "CHANGELOG.md" { // it speaks of what was
			all = append(all, name)
		}
	}
	slices.Sort(all)
	require.Greater(t, len(all), 15)
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	return string(b)
}

// TestCommands exercises every command of every page.
func TestCommands(t *testing.T) {
	ran := map[string]int{}
	done := map[string]error{} // a command that stands on several pages is tried once
	for _, page := range pages(t) {
		for _, b := range blocksOf(page, read(t, page)) {
			if !b.isShell() {
				continue
			}
			commands, err := b.commands()
			if !assert.NoError(t, err, "%s:%d", b.page, b.line) {
				continue
			}
			for _, c := range commands {
				key := strings.Join(c.words, "\x00")
				if _, ok := done[key]; !ok {
					done[key] = try(c)
				}
				assert.NoError(t, done[key], "%s:%d: %s", c.page, c.line, c)
				ran[c.program()]++
			}
		}
	}
	t.Log(ran)
	for _, program := range []string{"socket_vmnet", "socket_vmnet2", "socket_vmnet_client", "make", "minikube", "qemu-system-x86_64", "vfkit", "krunkit"} {
		assert.Positive(t, ran[program], "no page has a command of %s: this test looks at nothing", program)
	}
}

// try exercises one command.
func try(c command) error {
	if strings.Contains(c.words[0], "$") {
		return nil
	}
	if h := ours[c.program()]; h != nil {
		return h(c)
	}
	if strings.HasPrefix(c.program(), "socket_vmnet2.") { // a copy
		c.words[0] = "socket_vmnet2"
		return program2(c)
	}
	if strings.HasPrefix(c.words[0], "test/") || strings.HasPrefix(c.words[0], "./test/") {
		return script(c)
	}
	return checkForeign(c)
}

// build builds a program of this repository.
func build(out, pkg string) error {
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}
