// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// span is code within a line.
var span = regexp.MustCompile("`([^`]+)`")

// namePath is a path of this repository, and name a name of Go with its package in front.
var (
	namePath = regexp.MustCompile(`^(internal|cmd|test|etc|docs|attach|tools|Formula)/[A-Za-z0-9_./-]+$`)
	name     = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Za-z]\w*)(\.([A-Za-z]\w*))?(\(\))?$`)
)

// spans are those of a page outside of its fenced blocks, by line.
func spans(text string) map[int][]string {
	all := map[int][]string{}
	inBlock := false
	for i, line := range strings.Split(text, "\n") {
		if fence.MatchString(line) {
			inBlock = !inBlock
			continue
		}
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			if !inBlock {
				all[i+1] = append(all[i+1], m[1])
			}
		}
	}
	return all
}

// TestPaths: files and directories that pages name exist.
func TestPaths(t *testing.T) {
	looked := 0
	for _, page := range pages(t) {
		for line, all := range spans(read(t, page)) {
			for _, s := range all {
				if !namePath.MatchString(s) || strings.HasSuffix(s, "_") {
					continue
				}
				looked++
				_, err := os.Stat(filepath.Join(root, s))
				if err != nil { // beside the page
					_, err = os.Stat(filepath.Join(root, filepath.Dir(page), s))
				}
				assert.NoError(t, err, "%s:%d", page, line)
			}
		}
	}
	assert.Greater(t, looked, 20)
}

// TestSubcommands: what pages call a subcommand of socket_vmnet2 is one, and what they call a goal of make is one.
func TestSubcommands(t *testing.T) {
	text, err := box.run(box.dir, box.installed("bin/socket_vmnet2"), "--help")
	require.NoError(t, err)
	goals := read(t, "Makefile") + "\n" + read(t, "etc/install.mk")
	is := func(format, word, in string) bool {
		return regexp.MustCompile(fmt.Sprintf(format, regexp.QuoteMeta(word))).MatchString(in)
	}
	looked := 0
	for _, page := range pages(t) {
		for line, all := range spans(read(t, page)) {
			for _, s := range all {
				words := strings.Fields(strings.TrimPrefix(s, "sudo "))
				if len(words) < 2 || !regexp.MustCompile(`^[a-z][a-z.]*$`).MatchString(words[1]) {
					continue
				}
				switch words[0] {
				case "socket_vmnet2":
					looked++
					assert.True(t, is(`(?m)\b%s\b`, words[1], text), "%s:%d: no subcommand %s", page, line, words[1])
				case "make":
					looked++
					assert.True(t, is(`(?m)^([^:=\t#]* )?%s( [^:=]*)?:`, words[1], goals), "%s:%d: no goal %s", page, line, words[1])
				}
			}
		}
	}
	assert.Greater(t, looked, 10)
}

// TestNames: functions, types and methods that docs/architecture.md names are in the source, and all packages are on its map.
func TestNames(t *testing.T) {
	declared, packages := declarations(t)
	page := read(t, "docs/architecture.md")
	looked := 0
	for line, all := range spans(page) {
		for _, s := range all {
			m := name.FindStringSubmatch(s)
			if m == nil || !slices.Contains(packages, m[1]) || strings.HasSuffix(s, ".go") || strings.HasSuffix(s, ".md") {
				continue
			}
			looked++
			want := m[1] + "." + m[2]
			if m[4] != "" {
				want += "." + m[4]
			}
			assert.True(t, declared[want], "docs/architecture.md:%d: nothing is called %s", line, s)
		}
	}
	assert.Greater(t, looked, 10, "the page names too little")
	dirs, err := filepath.Glob(root + "/internal/*")
	require.NoError(t, err)
	for _, dir := range dirs {
		on := regexp.MustCompile("`(internal/)?" + regexp.QuoteMeta(filepath.Base(dir)) + "`|internal/" + regexp.QuoteMeta(filepath.Base(dir)) + `\b`)
		assert.True(t, on.MatchString(page),
			"docs/architecture.md does not say what %s is", dir)
	}
}

// declarations are the names that our packages declare at the top, methods and fields with their type, and the packages' names.
func declarations(t *testing.T) (declared map[string]bool, packages []string) {
	t.Helper()
	declared = map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := f.Name.Name
		if pkg == "main" {
			pkg = filepath.Base(filepath.Dir(path))
		}
		if !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
		for _, decl := range f.Decls {
			for _, n := range declaredBy(decl) {
				declared[pkg+"."+n] = true
			}
		}
		return nil
	}))
	return declared, packages
}

// declaredBy are the names of a declaration.
func declaredBy(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		kind := d.Recv.List[0].Type
		if star, ok := kind.(*ast.StarExpr); ok {
			kind = star.X
		}
		if of, ok := kind.(*ast.IndexExpr); ok {
			kind = of.X
		}
		if id, ok := kind.(*ast.Ident); ok {
			return []string{id.Name + "." + d.Name.Name}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
				if i, ok := s.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, n := range m.Names {
							names = append(names, s.Name.Name+"."+n.Name)
						}
					}
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// TestOptions: options that pages name are options of one of our programs, or of somebody else's that this test knows.
func TestOptions(t *testing.T) {
	known := map[string]bool{}
	for _, verbs := range foreign {
		for _, options := range verbs {
			for o := range strings.FieldsSeq(options) {
				known[o] = true
			}
		}
	}
	for _, o := range othersOptions {
		known[o] = true
	}
	var source strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		source.Write(b)
		return err
	}))
	text := source.String()
	is := func(o string) bool {
		return known[o] || strings.Contains(text, `"`+strings.TrimPrefix(o, "--")+`"`) || strings.Contains(text, `"`+o+`"`)
	}
	assert.False(t, is("--vmnet-modes"), "else this test shows nothing")
	looked := 0
	for _, page := range pages(t) {
		for line, all := range spans(read(t, page)) {
			for _, s := range all {
				for _, o := range optionInSpan.FindAllStringSubmatch(s, -1) {
					looked++
					assert.True(t, is(o[1]), "%s:%d: %s: nobody has the option %s", page, line, s, o[1])
				}
			}
		}
	}
	assert.Greater(t, looked, 50)
}

// optionInSpan is a long option at the begin of a word.
var optionInSpan = regexp.MustCompile(`(?:^|[ (])(--[a-z][a-z0-9-]*[a-z0-9])(?:[ =)\[\\]|$)`)

// othersOptions are options of other programs that pages speak of.
var othersOptions = []string{"--allow", "--enable-isolation", "--no-install-recommends", "--net-softnet", "--device"}
