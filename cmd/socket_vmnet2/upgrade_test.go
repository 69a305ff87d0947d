// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// upgradesBy is a daemon whose answer to an upgrade is h's.
func upgradesBy(t *testing.T, h http.HandlerFunc) (socket string) {
	t.Helper()
	return newFakeDaemon(t, map[string]http.HandlerFunc{"POST /v1/upgrade": h}).socket
}

func TestUpgradeReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		result control.Upgraded
		named  int // clients
		want   string
	}{
		{
			"clients",
			control.Upgraded{
				From: "v1", To: "v2", PID: 4711, Gap: 45.7, Clients: map[string]int{"stream": 2, "dgram": 1, "adopt": 0},
				Notes: []string{"connections to the outside ended: it had ended"},
			},
			0,
			"upgraded from v1 to v2 (process 4711): no frame for 45.7 ms, 3 clients kept (dgram: 1, stream: 2)\nconnections to the outside ended: it had ended\n",
		},
		{
			"no clients",
			control.Upgraded{From: "v1\x1b[2J", To: "v2"},
			0,
			"upgraded from v1?[2J to v2 (process 0): no frame for 0 ms, there were no clients\n",
		},
		{
			"the same version, names",
			control.Upgraded{From: "v1", To: "v1", PID: 1, Gap: 8.3, Clients: map[string]int{"stream": 10}},
			9,
			"no new version is installed: started again as v1 (process 1): no frame for 8.3 ms, 10 clients kept (stream: 10): " +
				"vm1, vm2, vm3, vm4, vm5, vm6, vm7, vm8, 1 more\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clients := []status.Client{{ID: 1}}
			for i := range c.named {
				clients = append(clients, status.Client{Hostname: fmt.Sprint("vm", i+1)})
			}
			socket := newFakeDaemon(t, map[string]http.HandlerFunc{
				"POST /v1/upgrade": says(c.result), "GET /v1/status": says(status.Status{Clients: clients}),
			}).socket
			code, stdout, stderr := call("upgrade", socket)
			assert.Zero(t, code, stderr)
			assert.Equal(t, c.want, stdout)
			assert.Empty(t, stderr)
			code, stdout, _ = call("upgrade", "--json", socket+".d")
			assert.Zero(t, code)
			var got control.Upgraded
			require.NoError(t, json.Unmarshal([]byte(stdout), &got))
			assert.Equal(t, c.result.PID, got.PID)
			assert.InDelta(t, c.result.Gap, got.Gap, 0)
			assert.Equal(t, 1, strings.Count(stdout, "\n"))
		})
	}
}

func TestUpgradeSaysWhyNot(t *testing.T) {
	refuse := func(code, text string) string {
		return upgradesBy(t, refuses(http.StatusInternalServerError, code, text))
	}
	t.Cleanup(func() { upgradeTime = time.Minute })
	silent := upgradesBy(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"refused", []string{refuse(string(handover.CodeCheck), "it\ncrashed\x1b")}, []string{"ERROR| not upgraded: ", "it", "crashed?\n"}},
		{"something else", []string{refuse(string(handover.CodeFailed), "odd")}, []string{"not upgraded: ", ": odd\n"}},
		{"no daemon", []string{"/nowhere/s"}, []string{"/nowhere/s: no daemon runs there: start one"}},
		{"no answer in time", []string{silent}, []string{"no answer within 50ms: see the daemon's log"}},
		{"long path", []string{"/" + strings.Repeat("x", 200)}, []string{"ERROR| "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			upgradeTime = time.Minute
			if c.args[0] == silent {
				upgradeTime = 50 * time.Millisecond
			}
			code, stdout, stderr := call("upgrade", c.args...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			for _, w := range c.want {
				assert.Contains(t, stderr, w)
			}
			assert.NotContains(t, stderr, "\x1b")
		})
	}
	t.Run("json", func(t *testing.T) {
		code, stdout, _ := call("upgrade", "--json", refuse(string(handover.CodeSlow), "slow"))
		assert.Equal(t, 1, code)
		assert.JSONEq(t, `{"error":{"code":"check_timeout","text":"slow"}}`, stdout)
	})
}

// TestUpgradeCheck has the program itself tried, as a running daemon does it.
func TestUpgradeCheck(t *testing.T) {
	b, err := handover.Find(filepath.Join(binaries, "socket_vmnet2"))
	require.NoError(t, err)
	good := append(backendArgs("/s"), "/s")
	for _, c := range []struct {
		name  string
		argv0 string
		args  []string
		state string
		want  string // of the refusal, empty if there is none
	}{
		{"as it is", "socket_vmnet2", good, "", ""},
		{"with state", "socket_vmnet2", good, `{"version": 1, "leases": []}`, ""},
		{"unknown option", "socket_vmnet2", append([]string{"--newer=1"}, good...), "", "the daemon's command line: unknown option --newer"},
		{"a group that is gone", "socket_vmnet2", append([]string{"--socket-group=gone-for-good"}, good...), "", `unknown group name "gone-for-good"`},
		{"no command either", "socket_vmnet2", []string{"statsu"}, "", `unknown command "statsu": did you mean status?`},
		{"newer state", "socket_vmnet2", good, `{"version": 2}`, "the daemon's state: decode state: version 2: another version of the program wrote it"},
		{"the old program does not know it", "socket_vmnet", []string{"--backend=usernet", "/s"}, "", "the daemon's command line: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := handover.Question{Argv: append([]string{c.argv0}, c.args...), State: []byte(c.state)}
			version, err := handover.Check(t.Context(), b, q, patience)
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, compat.Version, version)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

var stops = flag.Int("stops", 50, "how often TestStopInUpgrade stops a daemon")

// TestStopInUpgrade sends TERM at any moment of an upgrade. The daemon stops in order: nothing that was its own is left, and a client's
// connection ends without a reset. Where the signal ended the process, in the first moments of the new program, its guard does it.
func TestStopInUpgrade(t *testing.T) {
	const span = 100 * time.Millisecond // an upgrade is asked for and has ended
	guards := 0
	for i := range *stops {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p, _ := startOwn(t)
			c := p.dial(t, 1)
			_, err := c.Write(wire(0, 1, "sent"))
			require.NoError(t, err)
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				_ = exec.Command(filepath.Join(binaries, "socket_vmnet2"), "upgrade", p.sock).Run() // stopped, perhaps
			}()
			time.Sleep(span * time.Duration(i) / time.Duration(*stops))
			if code, took := p.signal(t, syscall.SIGTERM); code != 0 {
				require.Equal(t, syscall.SIGTERM, p.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%s", p.stderr)
				guards++
			} else {
				assert.Less(t, took, stopTime)
			}
			for _, path := range []string{p.sock, p.sock + ".d", filepath.Join(filepath.Dir(p.sock), "pid")} {
				assert.Eventually(t, func() bool {
					_, err := os.Lstat(path)
					return errors.Is(err, fs.ErrNotExist)
				}, stopTime, time.Millisecond, "%s is left", path)
			}
			_, err = io.Copy(io.Discard, c)
			assert.NoError(t, err, "the connection ends in order")
			<-asked
		})
	}
	t.Logf("%d of %d were stopped by their guards", guards, *stops)
}
