// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const escapes = "\x1b[2J\x1b]0;owned\x07\u202e\u2028"

// hostile is a system whose files lie.
var hostile = lima.with(tree{
	"/Users/ann/.lima/_config/networks.yaml":                      strings.NewReplacer("shared", "sha\u202ered", "admin", `"`+`\e[31m`+`"`).Replace(ofLima("networks.yaml")),
	"/private/etc/sudoers.d/lima":                                 "|",
	"/private/etc/bootpd.plist":                                   "bplist00\xff\xff\xff\xff\x00\x01garbage",
	"/private/var/db/dhcpd_leases":                                strings.Repeat("{\nip_address=\xff\n}\n{\nhw_address\nlease=0xffffffffffffffffffff\n}\n", 2000),
	"/private/var/run/lima/shared_socket_vmnet.pid":               strings.Repeat("9", 5000),
	"/private/var/run/socket_vmnet":                               "-> socket_vmnet",
	"/private/var/run/socket_vmnet.pid":                           "-> /private/var/run/socket_vmnet.pid",
	"/opt/homebrew/var/run/socket_vmnet":                          "|",
	"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": job("x"+"&#27;[2J", "/opt/socket_vmnet/bin/socket_vmnet", "/private/var/run/so\u202ecket"),
	"/System/Library/CoreServices/SystemVersion.plist":            strings.Repeat("A", 3<<20),
})

// TestHostile: whatever files, programs and daemons say, there is a report, and nothing in it moves the cursor.
func TestHostile(t *testing.T) {
	loud := strings.Repeat(escapes+strings.Repeat("x", 100)+"\n", 50000)
	for name, answer := range map[string]string{
		"garbage": "\xff\xfe\x00" + escapes, "empty": "", "loud": loud,
		"versions": "QEMU emulator version 99999999999999999999.x" + escapes,
	} {
		t.Run(name, func(t *testing.T) {
			recorded := map[string]string{}
			for line := range macOS15 {
				recorded[line] = answer
			}
			st := ours(func(st *status.Status) {
				st.Daemon.StateFile, st.Daemon.RuntimeDir = "/../../"+escapes, strings.Repeat("/x", 5000)
				st.Daemon.Version, st.Daemon.Pidfile, st.Daemon.MaxClients = escapes, "/private/var/run/socket_vmnet.pid", -1<<62
				st.Health = []status.Problem{{Severity: escapes, Text: escapes + loud, Fix: []string{escapes}}}
			})
			s := stage{
				tree: hostile, answers: recorded, processes: escapes + "\n" + limaDaemon + "1 2\n", addresses: home, reach: "192.168.105.9",
				daemons: map[string]status.Status{"/private/var/run/lima/socket_vmnet.shared.d/control": st, "/var/run/socket_vmnet.d/control": {}},
				mode:    map[string]fs.FileMode{"/Library/LaunchDaemons": 0o300},
				dial:    map[string]error{"192.168.105.9:22": errors.New(escapes)},
			}.system(t)
			r := Examine(t.Context(), s)
			assert.Equal(t, 3, r.ExitCode())
			text := r.Text(status.View{Width: 80}, false)
			for _, b := range text {
				if b != '\n' && (b < ' ' || b == 0x7f || b == '\u202e' || b == '\u2028') {
					require.Fail(t, "control character", "%q in %s", b, text)
				}
			}
			assert.Less(t, len(text), 200<<10)
			_, err := json.Marshal(r)
			require.NoError(t, err)
		})
	}
}

// TestFactsThatFail: without processes, routes, answers there is a report all the same.
func TestFactsThatFail(t *testing.T) {
	s := stage{tree: oursTree, answers: map[string]string{}, processes: "77 1 0 /x/socket_vmnet2 /var/run/socket_vmnet\n"}.system(t)
	no := errors.New("no " + escapes)
	s.Table = func() (*freenet.Table, error) { return nil, no }
	s.Ask = func(context.Context, string) (json.RawMessage, error) {
		return json.RawMessage(`{"daemon": 1}`), nil
	}
	r := Examine(t.Context(), s)
	assert.Contains(t, fmt.Sprint(r.Findings), "the answer is not a status")
	assert.Contains(t, fmt.Sprint(r.Skipped), "overlap no")
	s.Processes = func(context.Context) ([]find.Process, error) { return nil, no }
	r = Examine(t.Context(), s)
	assert.Contains(t, fmt.Sprint(r.Skipped), "what runs is not known")
	s.Ask = func(ctx context.Context, _ string) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	assert.NotEmpty(t, Examine(t.Context(), s).Findings)
}

// TestRealPrograms: one that hangs is ended, and of one that never stops talking little is kept.
func TestRealPrograms(t *testing.T) {
	x := &exam{System: System{System: find.System{Run: find.RunProgram}}, ctx: t.Context()}
	out, err := x.Output(x.ctx, "/bin/sh", "-c", "head -c 30000000 /dev/zero")
	require.NoError(t, err)
	assert.Less(t, len(out), 10<<20)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	x.ctx = ctx
	_, err = x.Output(x.ctx, "/bin/sh", "-c", "sleep 1000")
	assert.ErrorContains(t, err, "sh gave no answer")
}

// FuzzAnswers gives any text as any file's or program's. Whatever it is, there is a report.
func FuzzAnswers(f *testing.F) {
	for _, answer := range macOS15 {
		f.Add(answer)
	}
	f.Add(lease("192.168.105.2", "2:3") + plistOf("<key>Subnets</key><array/>"))
	f.Fuzz(func(t *testing.T, answer string) {
		s := find.System{GOOS: "darwin", Run: func(context.Context, string, ...string) ([]byte, error) { return []byte(answer), nil }}
		x := &exam{System: System{System: s}, Inventory: &find.Inventory{}, ctx: t.Context()}
		maskedPrefix(answer, answer)
		x.qemu("/q", answer)
		x.bootpdDisabled()
		x.firewallApps()
		x.subnets = []*subnet{{prefix: netip.MustParsePrefix("192.168.105.0/24"), runs: true, vmnet: true}}
		checkPF(x)
		checkForwarding(x)
		x.macOS = answer
		x.macMajor()
		for _, found := range x.findings {
			for _, r := range found.Text {
				if r < ' ' || r == 0x7f {
					t.Errorf("%q", found.Text)
				}
			}
		}
	})
}
