// SPDX-License-Identifier: Apache-2.0

// Package docs holds what the pages say against the programs: command lines, options, subcommands, goals of make, paths and
// packages that a page names are there, and the tables that can be made from the programs are made from them.
package docs

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// root is the repository.
const root = "../.."

// programs is where the programs are, by the names that pages call them.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "docs"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(programs)
		for name, pkg := range map[string]string{
			"socket_vmnet": "./cmd/socket_vmnet2", "socket_vmnet2": "./cmd/socket_vmnet2", "vmnet-helper": "./cmd/vmnet-helper",
		} {
			if err := lab.BuildGo(context.Background(), pkg, filepath.Join(programs, name)); err != nil {
				panic(err)
			}
		}
		return m.Run()
	}())
}

// run runs one of the programs.
func run(t *testing.T, words ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, words[0]), words[1:]...).CombinedOutput()
	return string(out), err
}

// pages are all that a person reads, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "[^b]*/*.md", "[^b]*/*/*.md"} { // of build there may be copies
		found, err := fs.Glob(os.DirFS(root), pattern)
		require.NoError(t, err)
		for _, path := range found {
			all[path] = read(t, path)
		}
	}
	delete(all, "CHANGELOG.md") // which speaks of what was
	require.Greater(t, len(all), 15)
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	return string(b)
}

var (
	// fence begins or ends a block, which may be indented.
	fence = regexp.MustCompile("^ *```+ *([a-z]*)")
	// span is code within a line.
	span = regexp.MustCompile("`([^`]+)`")
)

// A line is one of a page: text outside of blocks, or what a shell block has a reader type.
type line struct {
	at    string // page:number
	text  string
	shell bool
}

// linesOf are those of all pages. Commands that go on behind a backslash are one line.
func linesOf(t *testing.T) (all []line) {
	t.Helper()
	for page, text := range pages(t) {
		language, inBlock, goesOn := "", false, false
		for n, s := range strings.Split(text, "\n") {
			if m := fence.FindStringSubmatch(s); m != nil {
				inBlock, goesOn = !inBlock, false
				language = m[1]
				continue
			}
			s, typed := strings.CutPrefix(strings.TrimSpace(s), "$ ")
			shell := inBlock && (typed || language == "sh" || language == "bash")
			switch {
			case inBlock && goesOn:
				all[len(all)-1].text += " " + strings.TrimSuffix(s, `\`)
			case shell || !inBlock:
				all = append(all, line{fmt.Sprintf("%s:%d", page, n+1), strings.TrimSuffix(s, `\`), shell})
			}
			goesOn = (shell || goesOn) && strings.HasSuffix(s, `\`)
		}
	}
	return all
}

// ours is a command line of the daemon's program, with a path in front or none, up to the end of the command.
var ours = regexp.MustCompile(`(?:^|[;&|(] ?)(?:sudo )?(?:[\w./~$-]*/)?(socket_vmnet2?) ([^;&|)#<>]*)`)

// TestCommandLines: the daemon takes every command line that a page has a reader type, and each subcommand tells of its options.
func TestCommandLines(t *testing.T) {
	looked, tried := 0, map[string]error{}
	for _, l := range linesOf(t) {
		if !l.shell {
			continue
		}
		for _, m := range ours.FindAllStringSubmatch(l.text, -1) {
			words := strings.Fields(strings.NewReplacer(`"`, "", "'", "", " ...", "").Replace(m[0][strings.Index(m[0], m[1]):]))
			if len(words) < 2 {
				continue
			}
			looked++
			key := strings.Join(words, " ")
			if _, ok := tried[key]; !ok {
				tried[key] = takes(t, words)
			}
			assert.NoError(t, tried[key], "%s: %s", l.at, key)
		}
	}
	assert.Greater(t, looked, 40)
	assert.Error(t, takes(t, []string{"socket_vmnet2", "--vmnet-modes=shared", "/tmp/s"}), "else this test shows nothing")
	assert.Error(t, takes(t, []string{"socket_vmnet2", "status", "--jsons"}))
}

// takes holds a command line of the daemon against the parser, and one of a subcommand against its usage text.
func takes(t *testing.T, words []string) error {
	if strings.HasPrefix(words[1], "-") || strings.Contains(words[1], "/") {
		var errs bytes.Buffer
		none := func(string) (string, bool) { return "", false }
		cfg, code := compat.Parse(compat.PersonalityOf(words[0]), words, compat.IO{Stdout: &errs, Stderr: &errs, LookupEnv: none})
		if cfg == nil && code != 0 {
			return fmt.Errorf("exit code %d: %s", code, errs.String())
		}
		return nil
	}
	usage, err := run(t, words[0], words[1], "--help")
	if err != nil {
		return fmt.Errorf("%w: %s", err, usage)
	}
	for _, w := range words[2:] {
		if w == "--" { // what follows is for another program
			break
		}
		name, _, _ := strings.Cut(w, "=")
		if len(name) > 1 && name[0] == '-' && !regexp.MustCompile(`(?m)(^|, | |\[|\()`+name+`([=, \])]|$)`).MatchString(usage) {
			err = fmt.Errorf("nothing has the option %s: %s", name, usage)
		}
	}
	return err
}

var (
	// path is one of this repository.
	path = regexp.MustCompile(`^(internal|cmd|test|etc|docs|attach|tools|Formula)/[A-Za-z0-9_./-]+[A-Za-z0-9]$`)
	// option is a long one at the begin of a word.
	option = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z0-9-]*[a-z0-9])(?:[ =)\[\\]|$)`)
	// verb is what follows one of ours, or make.
	verb = regexp.MustCompile(`^(?:sudo )?(socket_vmnet2|make) ([a-z][a-z0-9.-]*)\b`)
)

// othersOptions are options of other programs that pages speak of.
var othersOptions = []string{
	"--allow", "--device", "--display", "--driver", "--enable-isolation", "--net-softnet", "--network-address", "--no-install-recommends",
	"--profile", "--resolver", "--sign", "--socket-vmnet-client-path", "--socket-vmnet-path", "--vm-type", "--vmnet-offloading",
}

// TestNames: paths, options, subcommands and goals of make that a page names in a sentence are there.
func TestNames(t *testing.T) {
	usage, err := run(t, "socket_vmnet2", "--help")
	require.NoError(t, err)
	goals, options := read(t, "Makefile")+"\n"+read(t, "etc/install.mk"), sources(t)
	is := func(format, word, in string) bool {
		return regexp.MustCompile(fmt.Sprintf(format, regexp.QuoteMeta(word))).MatchString(in)
	}
	isOption := func(o string) bool {
		return slices.Contains(othersOptions, o) || strings.Contains(options, `"`+strings.TrimPrefix(o, "--")+`"`) || strings.Contains(options, `"`+o+`"`)
	}
	assert.False(t, isOption("--vmnet-modes"), "else this test shows nothing")
	looked := map[string]int{}
	for _, l := range linesOf(t) {
		if l.shell {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(l.text, -1) {
			s := m[1]
			if path.MatchString(s) {
				looked["path"]++
				page, _, _ := strings.Cut(l.at, ":")
				_, err := os.Stat(filepath.Join(root, s))
				if err != nil { // beside the page
					_, err = os.Stat(filepath.Join(root, filepath.Dir(page), s))
				}
				assert.NoError(t, err, l.at)
			}
			for _, o := range option.FindAllStringSubmatch(s, -1) {
				looked["option"]++
				assert.True(t, isOption(o[1]), "%s: %s: nothing has the option %s", l.at, s, o[1])
			}
			switch v := verb.FindStringSubmatch(s); {
			case v == nil:
			case v[1] == "make":
				looked["goal"]++
				assert.True(t, is(`(?m)^([^:=\t#]* )?%s( [^:=]*)?:`, v[2], goals), "%s: no goal %s", l.at, v[2])
			default:
				looked["subcommand"]++
				assert.True(t, is(`(?m)\b%s\b`, v[2], usage), "%s: no subcommand %s", l.at, v[2])
			}
		}
	}
	for what, n := range map[string]int{"path": 20, "option": 50, "goal": 5, "subcommand": 5} {
		assert.Greater(t, looked[what], n, what)
	}
}

// sources are all of ours but tests, where options are strings, and the names of the integrations' options.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	}))
	return all.String()
}

// TestMap: docs/architecture.md says what each package below internal is.
func TestMap(t *testing.T) {
	page := read(t, "docs/architecture.md")
	dirs, err := filepath.Glob(root + "/internal/*")
	require.NoError(t, err)
	for _, dir := range dirs {
		name := regexp.QuoteMeta(filepath.Base(dir))
		assert.Regexp(t, "`(internal/)?"+name+"`|internal/"+name+`\b`, page)
	}
}

// TestFunctions: docs/architecture.md names functions, and types, that there are.
func TestFunctions(t *testing.T) {
	code := sources(t)
	found := regexp.MustCompile("`([a-z0-9]+)\\.(?:([A-Za-z]+)\\.)?([A-Za-z]+)`").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	assert.Greater(t, len(found), 30)
	for _, f := range found {
		pattern := `(?m)^(func|type) ` + f[3] + `\b`
		if f[2] != "" {
			pattern = `(?m)^func \((\w+ )?\*?` + f[2] + `\) ` + f[3] + `\(`
		}
		assert.True(t, regexp.MustCompile(pattern).MatchString(code), "there is no %s", f[0])
	}
}
