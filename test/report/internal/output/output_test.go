// SPDX-License-Identifier: Apache-2.0

package output

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func report() Files {
	return Files{
		"README.md":   []byte("<!-- " + Mark + " -->\none\n"),
		"b.md":        []byte("<!-- " + Mark + " -->\ntwo\n"),
		"plots/a.svg": []byte("<!-- " + Mark + " -->\nthree\n"),
	}
}

// tree is every file below dir with its content, links apart.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return all
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestWriteAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "report")
	require.NoError(t, Write(dir, report()))
	require.NoError(t, Compare(dir, report()))
	put(t, dir, "raw/bench.json", "{}")
	put(t, dir, "peers.json", "{}")
	put(t, dir, "notes.md", "somebody's\n")
	put(t, dir, "plots/own.svg", "somebody's\n")

	less := report()
	delete(less, "b.md")
	less["plots/c.svg"] = less["plots/a.svg"]
	delete(less, "plots/a.svg")
	require.NoError(t, Write(dir, less))
	want := map[string]string{
		"raw/bench.json": "{}", "peers.json": "{}", "notes.md": "somebody's\n", "plots/own.svg": "somebody's\n",
	}
	for p, b := range less {
		want[p] = string(b)
	}
	assert.Equal(t, want, tree(t, dir), "what an earlier report made is gone, what others made is there")
	require.NoError(t, Compare(dir, less))
}

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"somebody's directory", func(t *testing.T, dir string) { t.Helper(); put(t, dir, "thesis.tex", "x") }, "thesis.tex"},
		{"somebody's README", func(t *testing.T, dir string) { t.Helper(); put(t, dir, "README.md", "x") }, "README.md"},
		{"a page in the place of one", func(t *testing.T, dir string) {
			t.Helper()
			put(t, dir, "README.md", string(report()["README.md"]))
			put(t, dir, "b.md", "x")
		}, "b.md"},
		{"a plot in the place of one", func(t *testing.T, dir string) { t.Helper(); put(t, dir, "plots/a.svg", "<svg/>") }, "a.svg"},
		{"a link in the place of a page", func(t *testing.T, dir string) {
			t.Helper()
			put(t, dir, "README.md", string(report()["README.md"]))
			put(t, dir, "real/b", string(report()["b.md"]))
			require.NoError(t, os.Symlink("real/b", filepath.Join(dir, "b.md")))
		}, "b.md"},
		{"a link in the place of the plots", func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "plots")))
		}, "plots"},
		{"a file in the place of the plots", func(t *testing.T, dir string) { t.Helper(); put(t, dir, "plots", "x") }, "plots"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			before := tree(t, dir)
			err := Write(dir, report())
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, dir)
			assert.Equal(t, before, tree(t, dir), "nothing has changed")
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, filepath.Dir(file), "file", "x")
	assert.ErrorContains(t, Write(file, report()), file)
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir, report()))
	more := maps.Clone(report())
	more["c.md"] = []byte("x")
	more["b.md"] = []byte("<!-- " + Mark + " -->\n2\n")
	delete(more, "plots/a.svg")
	before := tree(t, dir)
	err := Compare(dir, more)
	require.ErrorContains(t, err, "make report")
	require.ErrorContains(t, err, "c.md is missing")
	require.ErrorContains(t, err, "b.md differs in line 2")
	require.ErrorContains(t, err, "plots/a.svg is left over")
	assert.NotContains(t, err.Error(), "README.md")
	assert.Equal(t, before, tree(t, dir))
}
