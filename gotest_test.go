// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// firstOnly is a test's line that is run the first time only: where the test has left no file yet.
const firstOnly = `if _, err := os.Stat("again"); err == nil { return }; _ = os.WriteFile("again", nil, 0o600); `

// TestGotest runs the script of all test stages: what gets a second try, and what never does.
func TestGotest(t *testing.T) {
	for _, c := range []struct {
		name, test, main string
		rerun            string
		fails            bool
		says             string
	}{
		{name: "passes", test: `_ = os.Args`},
		{
			name: "by chance", test: `t.Run("a part", func(t *testing.T) {` + firstOnly + `t.Fatal("chance") })`,
			says: "gotest: these needed a second try; find out why:\n    example.TestIt",
		},
		{name: "by chance, no second try", test: firstOnly + `t.Fatal("chance")`, rerun: "0", fails: true, says: "chance"},
		{name: "always", test: `t.Fatal("always")`, fails: true, says: "example.TestIt: 2 runs, 2 failures"},
		{name: "data race", test: firstOnly + `_, _ = os.Stdout.WriteString("WARNING: DATA RACE\n"); t.Fatal()`, fails: true, says: "had a data race"},
		{name: "panic", test: firstOnly + `panic("first")`, fails: true, says: "had a suspected panic"},
		{name: "four", test: "t.Fatal() }\nfunc TestB(t *testing.T) { t.Fatal() }\nfunc TestC(t *testing.T) { t.Fatal() }\nfunc TestD(t *testing.T) { t.Fatal()", fails: true, says: "number of test failures (4) exceeds maximum (3)"},
		{
			name: "something left behind", test: `left = true`, main: `c := m.Run(); if left { println("left"); c = 1 }; os.Exit(c)`,
			fails: true, says: "gotest: example failed outside its tests",
		},
		{name: "exits", test: firstOnly + `os.Exit(1)`, fails: true, says: "gotest: example failed outside"},
		{name: "does not build", test: `_ = nothing`, fails: true, says: "undefined: nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.main == "" {
				c.main = `os.Exit(m.Run())`
			}
			write(t, filepath.Join(dir, "go.mod"), "module example\n\ngo 1.26\n")
			write(t, filepath.Join(dir, "x_test.go"), "package example\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar left bool\n\n"+
				"func TestMain(m *testing.M) { "+c.main+" }\n\nfunc TestIt(t *testing.T) { "+c.test+" }\n")
			script, err := filepath.Abs("test/gotest.sh")
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), script, "./...", "-count=1")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "RERUN="+c.rerun)
			out, err := cmd.CombinedOutput()
			assert.Equal(t, c.fails, err != nil, "%v\n%s", err, out)
			assert.Contains(t, string(out), c.says)
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
