// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// statusSocket is where docs/status.md has its daemon.
const statusSocket = "/var/run/socket_vmnet"

// statusBlock is a command of the page with what it prints.
var statusBlock = regexp.MustCompile("(?s)(```console\n)(.*?)(```)")

// TestStatusPage runs the commands of docs/status.md on a daemon with two guests. What they print is what the page shows, apart
// from numbers and who runs the test; -update writes it there.
func TestStatusPage(t *testing.T) {
	l, err := lab.New(t.Context(), lab.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	socket := l.Path("s")
	_, err = l.StartDaemon(t.Context(), filepath.Join(programs, "socket_vmnet2"),
		[]string{"--backend=usernet", "--vmnet-gateway=192.168.105.1", "--socket-mode=0777", "--max-clients=64", socket})
	require.NoError(t, err)
	for i, name := range []string{"web", "db"} {
		g := vnettest.Dial(t, socket, fakeguest.Options{Name: name, MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, byte(i + 1)}})
		l, err := g.Configure()
		require.NoError(t, err)
		_, err = g.Ping(l.Server, 3)
		require.NoError(t, err)
	}

	path := filepath.Join(root, "docs/status.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	ran := 0
	made := statusBlock.ReplaceAllStringFunc(string(page), func(text string) string {
		parts := statusBlock.FindStringSubmatch(text)
		out := ""
		for line := range strings.Lines(parts[2]) {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			words := strings.Fields(strings.TrimPrefix(command, "sudo "))
			if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "/") }) {
				words = append(words, socket) // a page's reader has one daemon, this machine may have others
			}
			printed, err := run(t, words...)
			require.NoError(t, err, command)
			ran++
			out += line + strings.NewReplacer(socket, statusSocket, programs, "/opt/socket_vmnet/bin").Replace(printed)
		}
		return parts[1] + out + parts[3]
	})
	assert.Equal(t, 6, ran)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(made), 0o644))
		return
	}
	assert.Equal(t, unnumbered(string(page)), unnumbered(made), "go test ./test/docs -args -update writes it")
}

// unnumbered is a text without what is another one each time: numbers and their units, times, users and programs, and how
// columns are aligned.
func unnumbered(text string) string {
	for _, r := range []struct{ what, with string }{
		{`\S+/[0-9]+/\S+`, "PEER"},
		{`v[0-9]\S*`, "VERSION"},
		{`process [0-9]+ of [a-z0-9_-]+`, "process of USER"},
		{`\b([0-9]+[dhms])+\b`, "TIME"},
		{`[0-9]+(\.[0-9]+)?(k|M)?/[0-9.]+([KMG]i)?B`, "TRAFFIC"},
		{`[0-9]+(\.[0-9]+)?`, "0"},
		{` +`, " "},
	} {
		text = regexp.MustCompile(r.what).ReplaceAllString(text, r.with)
	}
	return text
}
