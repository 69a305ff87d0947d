// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// update has the examples of docs/status.md written again.
var update = flag.Bool("update", false, "write the examples of docs/status.md")

// page is what explains the codes.
const page = "../../../docs/status.md"

// codes are all codes of problems that the status package names.
func codes(t *testing.T) (list []string) {
	t.Helper()
	b, err := os.ReadFile("../../status/status.go")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(b), "// Codes of problems")
	block, _, _ = strings.Cut(block, "\n)")
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +=\s"(\S+)"`).FindAllStringSubmatch(block, -1) {
		list = append(list, m[1])
	}
	require.Len(t, list, strings.Count(block, " = "))
	require.NotEmpty(t, list)
	return list
}

// inOrder is in the environment of a process that runs all tests of the package once, in their order.
const inOrder = "SOCKET_VMNET2_HEALTH_IN_ORDER"

// TestEveryCode is behind the tests of the rules: every code that there is was produced by one of them, and the page shows it. So
// that this holds whatever is run, and in which order, it has all of them run by a process of its own.
func TestEveryCode(t *testing.T) {
	if os.Getenv(inOrder) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-update="+strconv.FormatBool(*update))
		cmd.Env = append(os.Environ(), inOrder+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	assert.ElementsMatch(t, codes(t), slices.Collect(maps.Keys(produced)))
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(b)
	assert.Equal(t, len(produced), strings.Count(text, "\n### `"), "a heading for each code")
	maps.Copy(produced, shown)
	for code, p := range produced {
		block := regexp.MustCompile("(?s)(\n### `" + code + "`\n\n)```text\n.*?```\n")
		if !assert.True(t, block.MatchString(text), "no example of %s", code) {
			continue
		}
		text = block.ReplaceAllStringFunc(text, func(s string) string {
			return block.FindStringSubmatch(s)[1] + "```text\n" + example(p) + "```\n"
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	} else if text != string(b) {
		t.Errorf("go test ./internal/ops/health -args -update writes the examples of %s", page)
	}
}

// example is p as the command status shows it.
func example(p status.Problem) string {
	p.Since, p.Clients = time.Time{}, nil
	_, text, _ := strings.Cut((&status.Status{Health: []status.Problem{p}}).Text(status.View{Width: 120}), "health: 1 problem\n\n")
	return text
}
