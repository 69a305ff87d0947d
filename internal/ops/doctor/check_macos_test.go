// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	pfRules   = pfctl + " -a " + isolation + " -s rules"
	pfTable   = pfctl + " -a " + isolation + " -t " + isolationTable + " -T show"
	ipForward = "/usr/sbin/sysctl -n net.inet.ip.forwarding"
)

// TestTraps of macOS, on a Mac with one daemon of ours that runs, unless a case has other processes.
func TestTraps(t *testing.T) {
	sharing := func(value string) tree {
		return tree{natPrefs: plistOf("<key>NAT</key><dict><key>Enabled</key>" + value + "</dict>")}
	}
	exempt := func(path, net string) tree {
		return tree{path: plistOf("<key>AllowedWiFiLocalNetworkAddresses</key><array><string>" + net + "</string></array>")}
	}
	const hostArgs = "78 1 0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-mode=host --vmnet-gateway=192.168.106.1 /private/var/run/socket_vmnet.host\n"
	for name, tt := range map[string]struct {
		check     string
		tree      tree
		version   string // of macOS; empty: 26.1
		processes string // more
		answers   map[string]string
		down      bool // our daemon does not run
		want      []string
	}{
		"no other":                    {check: "others", want: []string{"ok: nothing else that is known uses vmnet\n"}},
		"Internet Sharing":            {check: "others", tree: sharing("<integer>1</integer>"), down: true, want: []string{"notice: vmnet is used by others too: Internet Sharing; ", "System Settings"}},
		"Internet Sharing, off":       {check: "others", tree: sharing("<integer>0</integer>"), want: []string{"ok: nothing else"}},
		"a running network beside":    {check: "others", tree: sharing("<true/>"), want: []string{"ok: vmnet is used by others too: Internet Sharing; "}},
		"a path with a blank":         {check: "others", processes: "9 1 0 /Library/Application Support/com.canonical.multipass/bin/multipassd\n10 1 0 /x/container-network-vmnet start\n", want: []string{"Multipass (process 9) and apple/container (process 10)"}},
		"each once":                   {check: "others", processes: "9 1 501 /Applications/UTM.app/Contents/MacOS/UTM\n10 9 501 /Applications/UTM.app/Contents/XPC/QEMULauncher\n", want: []string{": UTM (process 9); "}},
		"a name in an argument":       {check: "others", processes: "9 1 501 vim vmnet-helper\n10 1 501 qemu-system-aarch64 -netdev user\n", want: []string{"ok: nothing else"}},
		"no host mode":                {check: "forwarding", answers: map[string]string{ipForward: "1\n"}, want: []string{"ok: no daemon has a network in host mode"}},
		"forwards nothing":            {check: "forwarding", processes: hostArgs, answers: map[string]string{ipForward: "0\n"}, want: []string{"ok: macOS forwards nothing"}},
		"forwards, with socket_vmnet": {check: "forwarding", processes: hostArgs, answers: map[string]string{ipForward: "1\n"}, want: []string{"warning: macOS forwards", "at /private/var/run/socket_vmnet.host may reach", "sudo sysctl -w net.inet.ip.forwarding=0"}},
		"forwards, not known":         {check: "forwarding", processes: hostArgs, want: []string{"skipped: forwarding: net.inet.ip.forwarding: exit status 1 false"}},
		"pf, without rights":          {check: "pf", want: []string{"skipped: pf: pf's rules, which only root may read: exit status 1 true"}},
		"pf, without isolation":       {check: "pf", answers: map[string]string{pfctl + " -s Anchors": "  com.apple\n"}, want: []string{"ok: pf has nothing that concerns the networks"}},
		"pf lets it through": {check: "pf", answers: map[string]string{
			pfctl + " -s Anchors": "", pfTable: "   192.168.105.0/24\n", pfRules: "pass quick on bridge100 inet from 192.168.105.0/24 to 192.168.105.0/24 flags S/SA keep state\n",
		}, want: []string{"ok: pf keeps 192.168.105.0/24 apart"}},
		"pf holds a part of it": {check: "pf", answers: map[string]string{pfctl + " -s Anchors": "", pfTable: "   192.168.105.7\n"}, want: []string{
			"warning: pf's anchor com.apple.internet-sharing/network_isolation drops what is from and for 192.168.105.0/24", "sudo pfctl -a com.apple.internet-sharing/network_isolation -s rules",
		}},
		"no privacy":               {check: "privacy", version: "14.7", want: []string{"ok: macOS 14.7 lets every program"}},
		"privacy of no version":    {check: "privacy", version: "?", want: []string{"skipped: privacy: the version of macOS is not known"}},
		"privacy":                  {check: "privacy", want: []string{"ok: macOS 26.1 asks of each app"}},
		"exempt, by sudo defaults": {check: "privacy", tree: exempt("/private"+exemptPlists[0], "192.168.0.0/16"), want: []string{"ok: every program may reach 192.168.105.0/24"}},
		"exempt, of the host":      {check: "privacy", tree: exempt(exemptPlists[1], "192.168.105.0/24"), want: []string{"ok: every program may reach 192.168.105.0/24"}},
		"another network exempt":   {check: "privacy", tree: exempt(exemptPlists[1], "192.168.105.128/25"), want: []string{"ok: macOS 26.1 asks of each app"}},
		"leases by DUID":           {check: "bootpd", tree: tree{"/private" + bootpdLease: duidLease("192.168.105.4")}, want: []string{"notice: bootpd has leased 192.168.105.4 to ubuntu by a DUID", "socket_vmnet2 status", "dhcp-identifier: mac"}},
		"a job in Downloads": {check: "macos", tree: tree{
			"/Library/LaunchDaemons/x.plist": job("x", "/Users/ann/Downloads/socket_vmnet2", "/private/var/run/x"), "/Users/ann/Downloads/socket_vmnet2": "#!",
		}, want: []string{"warning: the job x runs /Users/ann/Downloads/socket_vmnet2: launchd's jobs may not read"}},
		"a relative SOCKET": {check: "daemons", processes: "78 1 0 /opt/socket_vmnet/bin/socket_vmnet rel.sock\n", want: []string{"skipped: daemons: process 78 has a SOCKET that is relative", "sudo lsof -a -d cwd -p 78"}},
	} {
		t.Run(name, func(t *testing.T) {
			version := tt.version
			if version == "" {
				version = "26.1"
			}
			s := stage{
				tree: oursTree.with(tt.tree), processes: oursProcess + tt.processes, addresses: home,
				answers: answers(tt.answers), daemons: map[string]status.Status{"/var/run/socket_vmnet.d/control": ours(nil)},
			}
			s.answers["/usr/bin/sw_vers -productVersion"] = version + "\n"
			if tt.down {
				s.processes, s.daemons = tt.processes, nil
			}
			got := of(t, s.system(t), tt.check)
			for _, want := range tt.want {
				assert.Contains(t, got, want)
			}
		})
	}
	t.Run("leases of other networks", func(t *testing.T) {
		got := of(t, stage{tree: oursTree.with(tree{"/private" + bootpdLease: duidLease("192.168.64.4")}), processes: oursProcess}.system(t), "bootpd")
		assert.NotContains(t, got, "DUID")
	})
}

// TestText: lines fit the terminal, no word is cut, commands are whole, and only the words of severities have colours.
func TestText(t *testing.T) {
	s := stages["traps"].system(t)
	r := Examine(t.Context(), s)
	words := strings.Fields(r.Text(status.View{Width: 1 << 20}, false))
	escape := regexp.MustCompile("\x1b\\[[0-9]*m")
	for _, width := range []int{40, 80, 200} {
		text := r.Text(status.View{Width: width}, false)
		assert.Equal(t, words, strings.Fields(text), "%d", width)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			command := strings.HasPrefix(line, margin+"      ")
			_, step, _ := strings.Cut(line, margin)
			assert.True(t, len([]rune(line)) <= width || command || len(strings.Fields(strings.TrimPrefix(step, "  - "))) == 1, "%d: %q", width, line)
		}
		colored := r.Text(status.View{Width: width, Color: true}, false)
		assert.Equal(t, text, escape.ReplaceAllString(colored, ""))
		assert.Contains(t, colored, "\x1b[33m  warning  \x1b[0mforwarding: ")
		assert.NotContains(t, text, "\x1b")
	}
	assert.True(t, strings.HasSuffix(r.Text(status.View{Width: 80}, false), "Found 4 warnings and 3 notices; ok: 20, not checked: 1.\n"))
	all, problems := r.Text(status.View{Width: 80}, false), r.Text(status.View{Width: 80}, true)
	assert.Equal(t, 4, strings.Count("\n"+problems, "\n  warning  "))
	assert.NotRegexp(t, `(?m)^  (ok|notice)  |^$\n^[A-Z][a-z]+$|^Not checked|^socket_vmnet2 v`, problems)
	_, behind, _ := strings.Cut(all, "\nProblems\n")
	assert.Less(t, strings.Index(behind, "  warning  "), strings.Index(behind, "  notice  "), "the worst first")
	well := Examine(t.Context(), stage{tree: tree{"/Users/ann": "dir"}, goos: "linux"}.system(t))
	assert.Equal(t, "Found 1 notice; ok: 12, not checked: 0.\n", well.Text(status.View{Width: 80}, true), "one line, as nothing is worse than a notice")
}
