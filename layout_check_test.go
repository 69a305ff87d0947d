// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A source is one parsed Go file, whatever platform it is for.
type source struct {
	path string // slash-separated
	text string
	fset *token.FileSet
	ast  *ast.File
}

func (s *source) dir() string          { return path.Dir(s.path) }
func (s *source) test() bool           { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// parse reads one file.
func parse(filename, text string) (*source, error) {
	s := &source{path: filename, text: text, fset: token.NewFileSet()}
	var err error
	s.ast, err = parser.ParseFile(s.fset, filename, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// repository parses every Go file of the module.
func repository(t *testing.T) (files []*source) {
	t.Helper()
	for _, p := range tracked(t) {
		if !strings.HasSuffix(p, ".go") {
			continue
		}
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		s, err := parse(p, string(b))
		require.NoError(t, err)
		files = append(files, s)
	}
	require.Greater(t, len(files), 50, "too few files found; is this the root of the repository?")
	return files
}

// importsOf calls f for each import path of each file.
func importsOf(files []*source, f func(s *source, imported string)) {
	for _, s := range files {
		for _, i := range s.ast.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err == nil {
				f(s, p)
			}
		}
	}
}

// checkOwnImports compares the imports among our packages with the table.
func checkOwnImports(files []*source) (bad []string) {
	for _, s := range files {
		if _, known := imports[s.dir()]; !known && !s.test() {
			bad = append(bad, fmt.Sprintf("%s: package %s has no row in the import table", s.path, s.dir()))
		}
	}
	importsOf(files, func(s *source, imported string) {
		own, ok := strings.CutPrefix(imported, module+"/")
		switch {
		case !ok || own == s.dir():
		case s.test() && (strings.HasPrefix(own, "internal/") || strings.HasPrefix(own, "test/")):
		case !slices.Contains(imports[s.dir()], own):
			bad = append(bad, fmt.Sprintf("%s imports %s, which the import table does not allow", s.path, own))
		}
	})
	return bad
}

// checkThirdParty compares the imports of other modules with the list.
func checkThirdParty(files []*source) (bad []string) {
	importsOf(files, func(s *source, imported string) {
		first, _, _ := strings.Cut(imported, "/")
		if !strings.Contains(first, ".") || imported == module || strings.HasPrefix(imported, module+"/") {
			return // the standard library, or ours
		}
		for m, u := range direct {
			if imported != m && !strings.HasPrefix(imported, m+"/") {
				continue
			}
			allowed := u.code
			if s.test() {
				allowed = slices.Concat(u.code, u.tests)
			}
			if !slices.Contains(allowed, "*") && !slices.Contains(allowed, s.dir()) {
				bad = append(bad, fmt.Sprintf("%s imports %s, which is not for %s", s.path, imported, s.dir()))
			}
			return
		}
		bad = append(bad, fmt.Sprintf("%s imports %s, which is not on the list of modules", s.path, imported))
	})
	return bad
}

// checkCgo finds cgo in what is shipped.
func checkCgo(files []*source) (bad []string) {
	importsOf(files, func(s *source, imported string) {
		if imported == "C" && (strings.HasPrefix(s.path, "internal/") || strings.HasPrefix(s.path, "cmd/")) {
			bad = append(bad, s.path+` imports "C"; internal and cmd are free of cgo`)
		}
	})
	return bad
}

// spdx is what the first line of a file says.
const spdx = "SPDX-License-Identifier: Apache-2.0"

func isSPDX(line string) bool { return strings.Contains(line, spdx) }

// needsSPDX tells for a path that is not a Go file whether comments are possible and the file is ours to license.
func needsSPDX(p string) bool {
	switch path.Ext(p) {
	case ".c", ".h", ".sh", ".yml", ".yaml", ".S":
		return true
	}
	return path.Base(p) == "Makefile"
}

// checkSPDX wants the licence in the first line and an empty second one, so that it is no package comment.
func checkSPDX(files []*source) (bad []string) {
	for _, s := range files {
		if !strings.HasPrefix(s.text, "// "+spdx+"\n\n") {
			bad = append(bad, fmt.Sprintf("%s: does not begin with %q and an empty line", s.path, "// "+spdx))
		}
	}
	return bad
}

// checkExported finds what packages below internal export although no other package uses it; a package's own tests, with whatever
// name, are no other package. A method is known by its name only, and exempt if an interface of ours has that name or the method's
// comment says that it implements another one.
func checkExported(files []*source) (bad []string) {
	// directories that use a method, or another directory's name
	users := map[string][]string{"Unwrap": {"errors"}, "MarshalJSON": {"json"}, "UnmarshalJSON": {"json"}}
	use := func(name, dir string) { users[name] = append(users[name], dir) }
	for _, s := range files {
		dirs := map[string]string{} // by the name of the import
		for _, i := range s.ast.Imports {
			dir := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			dirs[path.Base(dir)] = dir
			if i.Name != nil {
				dirs[i.Name.Name] = dir
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				use(n.Sel.Name, s.dir())
				if x, ok := n.X.(*ast.Ident); ok {
					use(dirs[x.Name]+"."+n.Sel.Name, s.dir())
				}
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					for _, id := range m.Names {
						use(id.Name, "")
					}
				}
			}
			return true
		})
	}
	for _, s := range files {
		if s.test() || !strings.HasPrefix(s.dir(), "internal/") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			var ids []*ast.Ident
			prefix := s.dir() + "."
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					prefix = ""
				}
				if n.Recv == nil || !strings.Contains(n.Doc.Text(), "implements") {
					ids = []*ast.Ident{n.Name}
				}
			case *ast.TypeSpec:
				ids = []*ast.Ident{n.Name}
			case *ast.ValueSpec:
				ids = n.Names
			default:
				return true
			}
			for _, id := range ids {
				if id.IsExported() && !slices.ContainsFunc(users[prefix+id.Name], func(dir string) bool { return dir != s.dir() }) {
					bad = append(bad, fmt.Sprintf("%s:%d: no other package uses %s", s.path, s.line(id.Pos()), id.Name))
				}
			}
			return false
		})
	}
	return bad
}

// checkSkips finds tests that skip without being on the list, and rows of the list that are not needed.
func checkSkips(files []*source) (bad []string) {
	unused := slices.Collect(maps.Keys(skips))
	for _, s := range files {
		skipping := 0
		for _, d := range s.ast.Decls {
			fd, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fd, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
					return true
				}
				if !namesRule(call) {
					skipping++
				}
				key := s.path + ": " + fd.Name.Name
				unused = slices.DeleteFunc(unused, func(k string) bool { return k == key })
				if _, ok := skips[key]; !ok {
					bad = append(bad, fmt.Sprintf("%s:%d: %s skips, but is not on the list", s.path, s.line(call.Pos()), fd.Name.Name))
				}
				return true
			})
		}
		if n := asksForCI(s); n < skipping {
			bad = append(bad, fmt.Sprintf("%s: has %d skips and asks for CI %d times: in CI each of them must fail, or say \"darwin: \" and a rule", s.path, skipping, n))
		}
	}
	for _, k := range unused {
		bad = append(bad, k+": is on the list of skips, but does not skip")
	}
	return bad
}

// namesRule tells whether a call's first argument names a rule of macOS that forbids what the test does. CI runs the tests as
// macOS's programs too, and counts those skips.
func namesRule(call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	l, ok := call.Args[0].(*ast.BasicLit)
	return ok && strings.HasPrefix(l.Value, `"darwin: `)
}

// asksForCI counts how often a file looks at the environment variable CI.
func asksForCI(s *source) (n int) {
	ast.Inspect(s.ast, func(node ast.Node) bool {
		if l, ok := node.(*ast.BasicLit); ok && l.Value == `"CI"` {
			n++
		}
		return true
	})
	return n
}

// notLinked are packages that no program for Linux may contain, with all below them.
var notLinked = []string{
	"C", "runtime/cgo", "testing", "github.com/ebitengine/purego", "github.com/Code-Hex", "github.com/stretchr", "go.uber.org/goleak",
	module + "/internal/testing/vnettest", module + "/internal/network/vmnet/ffi", module + "/internal/darwinapi", module + "/test",
}

// checkLinked finds forbidden packages among the dependencies of a program.
func checkLinked(deps []string) (bad []string) {
	for _, d := range deps {
		for _, no := range notLinked {
			if d == no || strings.HasPrefix(d, no+"/") {
				bad = append(bad, d+" is linked into the program")
			}
		}
	}
	return bad
}

// licences are words that tell one licence from the others.
var licences = []struct{ name, has, hasNot string }{
	{"Apache-2.0", "Apache License Version 2.0", ""},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
	{"BSD-3-Clause", "Neither the name of", ""},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms", "Neither the name of"},
	{"Zlib", "This software is provided 'as-is' without any express or implied warranty", ""},
}

// licenceOf recognises the licence in a module's directory, "" if there is none that is known.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(dir, "COPY*"))
	require.NoError(t, err)
	for _, n := range append(names, more...) {
		b, err := os.ReadFile(n)
		require.NoError(t, err)
		if l := licenceIn(string(b)); l != "" {
			return l
		}
	}
	return ""
}

func licenceIn(text string) string {
	text = strings.ToLower(strings.NewReplacer(",", "", "*", "").Replace(strings.Join(strings.Fields(text), " ")))
	for _, l := range licences {
		has := strings.ToLower(strings.ReplaceAll(l.has, ",", ""))
		if strings.Contains(text, has) && (l.hasNot == "" || !strings.Contains(text, strings.ToLower(l.hasNot))) {
			return l.name
		}
	}
	return ""
}
