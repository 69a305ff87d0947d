// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codes are all codes of problems that the status package names.
func codes(t *testing.T) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../status/problem.go", nil, parser.ParseComments)
	require.NoError(t, err)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || !strings.HasPrefix(g.Doc.Text(), "Codes of problems") {
			continue
		}
		for _, s := range g.Specs {
			code, err := strconv.Unquote(s.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			list = append(list, code)
		}
	}
	require.NotEmpty(t, list)
	return list
}

// TestEveryCode is behind the tests of the rules: every code that there is was produced by one of them.
func TestEveryCode(t *testing.T) {
	if len(produced) == 0 {
		return // it runs alone
	}
	assert.ElementsMatch(t, codes(t), slices.Collect(maps.Keys(produced)))
}
