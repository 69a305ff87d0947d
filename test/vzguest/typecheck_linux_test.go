// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// darwinFile is the one that only a Mac can compile.
const darwinFile = "guest_darwin.go"

// A listed package is what go list tells of one.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Standard          bool
}

// A checker type-checks packages for macOS from their sources: no compiler, no C headers. What comes from C has any type.
type checker struct {
	fset     *token.FileSet
	arch     string
	packages map[string]*listed
	done     map[string]*types.Package
	errs     map[string][]error // by package
	self     string             // the import path of this one
}

// newChecker asks go list which files make up this package and all it imports.
func newChecker(t *testing.T, arch string) *checker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Standard", ".")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: go mod download gets the packages", stderr.String())
	c := &checker{
		fset: token.NewFileSet(), arch: arch, packages: map[string]*listed{},
		done: map[string]*types.Package{"unsafe": types.Unsafe}, errs: map[string][]error{},
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		c.packages[p.ImportPath] = &p
		c.self = p.ImportPath // dependencies come first
	}
	return c
}

// check type-checks a package. Of those that are imported only the declarations count.
func (c *checker) check(p *listed) (*types.Package, error) {
	var files []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	c.errs[p.ImportPath] = nil
	conf := types.Config{
		FakeImportC:      true,
		IgnoreFuncBodies: p.ImportPath != c.self,
		Sizes:            types.SizesFor("gc", c.arch),
		Importer:         importer{c, p.ImportMap},
		Error:            func(err error) { c.errs[p.ImportPath] = append(c.errs[p.ImportPath], err) },
	}
	pkg, _ := conf.Check(p.ImportPath, c.fset, files, nil)
	return pkg, nil
}

// An importer finds the packages that another one imports.
type importer struct {
	c *checker
	m map[string]string // for the standard library's own copies of modules
}

func (i importer) Import(path string) (*types.Package, error) {
	if real, ok := i.m[path]; ok {
		path = real
	}
	if pkg, ok := i.c.done[path]; ok {
		return pkg, nil
	}
	p, ok := i.c.packages[path]
	if !ok {
		return nil, fmt.Errorf("go list does not know %s", path)
	}
	pkg, err := i.c.check(p)
	if err == nil {
		i.c.done[path] = pkg
	}
	return pkg, err
}

// TestTypes: what a Mac compiles has no type error. On a Mac its compiler tells.
func TestTypes(t *testing.T) {
	for _, arch := range []string{"arm64", "amd64"} {
		t.Run(arch, func(t *testing.T) {
			c := newChecker(t, arch)
			self := c.packages[c.self]
			assert.Contains(t, self.GoFiles, darwinFile)
			assert.NotContains(t, self.GoFiles, "guest_stub.go")
			_, err := c.check(self)
			require.NoError(t, err)
			require.Empty(t, c.errs[c.self])
			vz := c.done["github.com/Code-Hex/vz/v3"]
			require.NotNil(t, vz)
			assert.Empty(t, c.errs[vz.Path()])
			start := vz.Scope().Lookup("NewVirtualMachine")
			require.NotNil(t, start)
			assert.Equal(t, "func(config *github.com/Code-Hex/vz/v3.VirtualMachineConfiguration) "+
				"(*github.com/Code-Hex/vz/v3.VirtualMachine, error)", start.Type().String(), "the real package was read")
		})
	}
}
