// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cases builds the C tests, with the shims in the same program so that a sanitizer sees both.
func cases(t *testing.T, flags ...string) string {
	t.Helper()
	more, err := cbuild.CTests()
	require.NoError(t, err)
	files, err := cbuild.Sources(csrc, more...)
	require.NoError(t, err)
	delete(files, "main.c")
	flags = slices.Concat([]string{"-O1"}, linking, flags)
	p, err := cbuild.Program{Dir: "machrun", Name: "ctest", Flags: flags, Files: files}.Build(t.Context())
	return cbuild.Must(t, p, err)
}

// TestShims runs each C case as the compiler makes it, and with sanitizers.
func TestShims(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"plain":     nil,
		"sanitized": {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := cbuild.Command(t.Context(), cases(t, flags...)).CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.GreaterOrEqual(t, bytes.Count(out, []byte("ok ")), 5, "%s", out)
		})
	}
}
