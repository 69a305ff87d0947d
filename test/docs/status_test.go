// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/web"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
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

func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "chromium")
	}
	return path
}

// browse opens url without a window, and is what Chromium prints. It runs for some seconds of the page's time.
func browse(t *testing.T, url string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), chromium(t), append(append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
		"--virtual-time-budget=3500", "--window-size=1100,1000",
	}, args...), url)...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	require.NoError(t, err, "%s", &complaints)
	return string(out)
}

// plugIn has guests of these names. The last one uses the first one's address as well, which health tells of.
func plugIn(t *testing.T, socket string, names ...string) {
	t.Helper()
	var guests []*fakeguest.Guest
	var server netip.Addr
	for i, name := range names {
		g := vnettest.Dial(t, socket, fakeguest.Options{Name: name, MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, byte(i + 1)}})
		lease, err := g.Configure()
		require.NoError(t, err)
		guests, server = append(guests, g), lease.Server
	}
	last := guests[len(names)-1]
	last.SetAddr(guests[0].Addr(), server)
	_, err := last.Resolve(server)
	require.NoError(t, err)
}

// page is the page of the daemon on socket, with what it tells of itself changed by edit. From one look to the next a second has gone
// and the first guest has sent something to the second one, however fast a browser that does not wait for its timers looks.
func page(t *testing.T, socket string, edit func(*status.Status)) (url string) {
	t.Helper()
	_, b, err := control.Ask(t.Context(), socket+".d/control", http.MethodGet, "/v1/status", nil)
	require.NoError(t, err)
	var s status.Status
	require.NoError(t, json.Unmarshal(b, &s))
	edit(&s)
	server := httptest.NewServer(web.Page(func(context.Context) (json.RawMessage, error) {
		s.Now = s.Now.Add(time.Second)
		s.Clients[0].ToNet.Bytes += 300 << 10
		s.Clients[1].ToClient.Bytes += 300 << 10
		return json.Marshal(s)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestStatusWeb looks at the page of a daemon with guests. With -update a picture of it goes to docs/status-web.png.
func TestStatusWeb(t *testing.T) {
	chromium(t)
	l, err := lab.New(t.Context(), lab.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	socket, program := l.Path("s"), filepath.Join(programs, "socket_vmnet2")
	_, err = l.StartDaemon(t.Context(), program, []string{"--backend=usernet", "--vmnet-gateway=192.168.105.1", socket})
	require.NoError(t, err)
	plugIn(t, socket, "web", "db", "builder")

	c := exec.CommandContext(t.Context(), program, "status", "--web", socket)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)
	dom := browse(t, url, "--dump-dom")
	for _, want := range []string{"<title>3 clients, 1 problem: ", "<td>web</td>", "<td>db</td>", "<td>192.168.105.3</td>", ">web</text>", "<strong>error: </strong>"} {
		assert.Contains(t, dom, want)
	}
	require.NoError(t, c.Process.Signal(os.Interrupt))
	assert.NoError(t, c.Wait(), "an interrupt ends it in order")

	url = page(t, socket, func(s *status.Status) { s.Daemon.Socket = statusSocket })
	assert.Regexp(t, `>sends [0-9.]+ [KM]iB/s, gets `, browse(t, url, "--dump-dom"))
	if *update {
		png, err := filepath.Abs(filepath.Join(root, "docs/status-web.png"))
		require.NoError(t, err)
		browse(t, url, "--screenshot="+png)
	}

	const hostile = "<img src=x onerror=document.body.remove()>" // a daemon lets no such name pass, and the page does not rely on it
	dom = browse(t, page(t, socket, func(s *status.Status) {
		x := &s.Clients[0]
		x.Name, x.Hostname, x.State, x.MAC, x.Peer.Command = hostile, hostile, hostile, hostile, hostile
		s.Network.DHCP.Leases[0].Name, s.Daemon.Socket, s.Network.Mode = hostile, hostile, hostile
		s.Health = []status.Problem{{Severity: hostile, Text: hostile, Fix: []string{hostile, status.CommandIndent + hostile}}}
	}), "--dump-dom")
	assert.Greater(t, strings.Count(dom, "&lt;img src=x onerror="), 12, "%s", dom)
	assert.NotContains(t, dom, "<img")
}
