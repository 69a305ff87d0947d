// SPDX-License-Identifier: Apache-2.0

package status

import (
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files in testdata")

// now is when the daemons of these tests are looked at.
var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// daemon is one with two ordinary clients.
func daemon() *Status {
	return &Status{
		Format: 1, Now: now,
		Daemon: Daemon{
			Version: "v1.2.3", PID: 321, UID: 0, Program: "/opt/socket_vmnet/bin/socket_vmnet2", Socket: "/var/run/socket_vmnet",
			Uptime: 11530, Upgrades: 2, LogLevel: "info", MaxClients: 256, QueueSize: 2 << 20,
		},
		Network: Network{
			State: NetworkRunning, Backend: "usernet", Mode: "shared",
			Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"), MTU: 1500,
			DHCP: &DHCP{
				Start: netip.MustParseAddr("192.168.105.2"), End: netip.MustParseAddr("192.168.105.254"), Size: 252, Leased: 2,
			},
			Usernet: &Usernet{TCPFlows: 3, UDPFlows: 1, Gateway: Gateway{State: "running", PID: 78, UID: 65534, User: "nobody", Restarts: 1}, Forwards: []Forward{
				{Proto: "tcp", Host: "127.0.0.1:2222", Guest: "192.168.105.2:22"},
				{Proto: "tcp", Host: "127.0.0.1:80", Guest: "192.168.105.2:80", Error: "bind: Permission denied"},
			}},
		},
		Clients: []Client{
			client(1, "web"),
			{
				ID: 12, Hostname: "build-machine-of-the-team", Transport: PassedDatagram, MAC: "52:54:00:00:00:0c",
				IP: netip.MustParseAddr("192.168.105.3"), State: StateStalled, Age: 12,
				ToClient: Traffic{Frames: 1234567, Bytes: 5 << 30, Drops: map[string]uint64{"drop_queue_full": 15000, "drop_too_long": 2}},
				ToNet:    Traffic{Drops: map[string]uint64{"drop_storm": 400, "drop_short": 0}},
				Queue:    Queue{Bytes: 2 << 20, Limit: 2 << 20, Stalled: 11}, Interface: Interface{Kind: InterfaceShared},
			},
		},
		Totals: Totals{Connects: 37},
		Health: []Problem{
			{
				Code: NoDHCPAnswer, Severity: Error, Since: now.Add(-192 * time.Second), Clients: []uint64{1},
				Text: "the guest 52:54:00:00:00:01 has asked for an address for 3m12s, and nothing answers",
				Fix:  []string{"let macOS's DHCP server through the firewall, which needs root, and start the guest's network again:", "    sudo /usr/libexec/ApplicationFirewall/socketfilterfw --unblock /usr/libexec/bootpd"},
			},
			{Code: StalledClient, Severity: Warning, Clients: []uint64{12, 1, 99}, Text: "they do not read"},
			{Code: ProgramReplaced, Severity: Notice, Text: "another version is installed", Fix: []string{"socket_vmnet2 upgrade"}},
		},
	}
}

func client(id uint64, name string) Client {
	return Client{
		ID: id, Name: name, Transport: Stream, FD: 9,
		Peer:  Peer{Known: true, UID: 501, PID: 4711, User: "ada", Command: "qemu-system-aarch64"},
		MAC:   fmt.Sprintf("52:54:00:00:%02x:%02x", id>>8, id&0xff),
		State: StateRunning, Connected: now.Add(-192 * time.Second), Age: 192.4,
		ToNet: Traffic{Frames: 12345, Bytes: 1258291}, ToClient: Traffic{Frames: 999, Bytes: 1023},
		Interface: Interface{Kind: InterfaceOwn},
	}
}

// hostile is a daemon whose clients, and what speaks for it, do what they can to the terminal.
func hostile() *Status {
	s := daemon()
	const evil = "\x1b[2J\x1b]0;x\a\u202eevil\r\n\x9b31m\xff\u200b\u2028"
	zalgo := "z" + strings.Repeat("\u0301", 40)
	s.Daemon.Version, s.Daemon.Socket, s.Daemon.Program, s.Daemon.LogLevel = evil, evil, evil, evil
	s.Network.State, s.Network.Backend, s.Network.Mode, s.Network.Interface, s.Network.Error = evil, evil, evil, evil, evil
	s.Network.Vmnet = &Vmnet{API: evil, Why: evil, LastFailure: evil}
	s.Network.Usernet.Gateway = Gateway{State: evil, Error: evil, User: evil, PID: 1, Rights: evil}
	s.Network.Usernet.Forwards[0] = Forward{Proto: evil, Host: evil, Guest: evil, Error: evil}
	for i, name := range []string{evil, zalgo, "ein Name mit Leerzeichen", strings.Repeat("宽", 40), strings.Repeat("x", 500), "  "} {
		c := client(uint64(100+i), name)
		c.Peer.User, c.Peer.Command, c.MAC, c.State, c.Transport, c.Interface.Kind = name, name, evil, evil, evil, evil
		c.ToNet.Drops = map[string]uint64{evil: 1}
		c.Age, c.Queue.Bytes = math.Inf(1), -1
		s.Clients = append(s.Clients, c)
	}
	s.Health = []Problem{{Code: evil, Severity: evil, Text: evil + zalgo, Clients: []uint64{100, 101, 102, 103, 104, 105, 1, 2, 3, 4}, Fix: []string{evil, "    " + evil}}}
	return s
}

func many() *Status {
	s := daemon()
	s.Clients, s.Health = nil, nil
	for id := range uint64(256) {
		s.Clients = append(s.Clients, client(id+1, ""))
	}
	return s
}

func empty() *Status {
	return &Status{Daemon: Daemon{Version: "v1", Socket: "/s"}, Network: Network{Backend: "vmnet", Mode: "bridged", Interface: "en0", State: NetworkFailed, Error: "VMNET_FAILURE"}}
}

func one() *Status {
	s := daemon()
	s.Clients, s.Health, s.Network.Usernet = s.Clients[:1], nil, nil
	s.Network.Backend, s.Network.DHCP.Size = "vmnet", 0
	s.Network.Vmnet = &Vmnet{API: "network", Why: "macOS has it", Own: 1, StartFailures: 2, LastFailure: "VMNET_SHARING_SERVICE_BUSY", LastWake: &Wake{At: now.Add(-5 * time.Minute), Slept: 8000, Restarted: 1}}
	return s
}

// later is daemon three seconds later.
func later() *Status {
	s := daemon()
	s.Now = now.Add(3 * time.Second)
	s.Clients[0].ToNet.Frames += 300
	s.Clients[0].ToNet.Bytes += 3 << 20
	s.Clients[1].ToClient.Frames = 0 // it began anew
	s.Clients = append(s.Clients, client(13, "new"))
	return s
}

// TestGolden compares with the files in testdata, which a person has looked at.
func TestGolden(t *testing.T) {
	for name, make := range map[string]func() *Status{
		"empty": empty, "one": one, "two": daemon, "many": many, "hostile": hostile, "later": later,
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			o := View{}
			if name == "later" {
				o.Before = daemon()
			}
			show := func(title string, o View) {
				text := make().Text(o)
				if name == "many" {
					text = strings.Join(strings.SplitAfter(text, "\n")[:20], "")
				}
				fmt.Fprintf(&got, "--- %s\n%s\n", title, text)
			}
			for _, width := range []int{40, 60, 80, 120, 200} {
				o.Width = width
				show(fmt.Sprint(width), o)
			}
			o.Wide = true
			show("80, --wide", View{Width: 80, Wide: true, Before: o.Before})
			show("piped", View{Piped: true, Width: 80, Color: true, Before: o.Before})
			show("80, colour", View{Width: 80, Color: true, Before: o.Before})
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.String())
		})
	}
}

// TestWidths: at every width no line is longer, but for what cannot be broken, and nothing moves the cursor.
func TestWidths(t *testing.T) {
	for name, make := range map[string]func() *Status{"two": daemon, "many": many, "hostile": hostile} {
		for limit := 1; limit < 260; limit++ {
			for line := range strings.Lines(make().Table(View{Width: limit})) {
				line = strings.TrimSuffix(line, "\n")
				assert.LessOrEqual(t, utf8.RuneCountInString(line), max(limit, 3), "%s: %q", name, line)
				assert.Equal(t, Clean(line), line)
			}
		}
	}
}

// TestPiped: every line has as many words as there are columns, whatever the names.
func TestPiped(t *testing.T) {
	for name, make := range map[string]func() *Status{"empty": empty, "two": daemon, "many": many, "hostile": hostile} {
		for line := range strings.Lines(make().Table(View{Piped: true, Width: 20, Color: true})) {
			assert.Len(t, strings.Fields(line), 13, "%s: %q", name, line)
			assert.NotContains(t, line, "\x1b")
			assert.NotContains(t, line, "…")
		}
	}
}

// TestNoEscapes: whatever a daemon says, the only escape sequences are those of our styles.
func TestNoEscapes(t *testing.T) {
	for _, o := range []View{{}, {Piped: true}, {Width: 80}, {Width: 80, Color: true}, {Wide: true, Color: true}} {
		text := hostile().Text(o) + hostile().Table(o) + hostile().Hosts()
		for _, style := range []string{"0", bold, red, yellow, cyan} {
			text = strings.ReplaceAll(text, "\x1b["+style+"m", "")
		}
		for _, r := range text {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028 || r == 0x200b || r == 0xfffd) {
				t.Fatalf("%q is in %q", r, text)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 102348: "99.9KiB", 102400: "100KiB", 1048575: "1.0MiB", 1258291: "1.2MiB",
		5 << 30: "5.0GiB", math.MaxUint64: "16.0EiB",
	} {
		assert.Equal(t, want, humanBytes(n), "%d", n)
	}
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1.0k", 12345: "12.3k", 99949: "99.9k", 99999: "100k", 999499: "999k", 999999: "1.0M", math.MaxUint64: "18.4E",
	} {
		assert.Equal(t, want, humanCount(n), "%d", n)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[float64]string{
		-5: "0s", 0: "0s", 0.9: "0s", 59.9: "59s", 60: "1m0s", 192: "3m12s", 3600: "1h0m", 11530: "3h12m", 86400: "1d0h", 443000: "5d3h",
		math.Inf(1): "53375d23h", math.Inf(-1): "0s",
	} {
		assert.Equal(t, want, seconds(d), "%v", d)
	}
	assert.Equal(t, "0s", seconds(math.NaN()))
}

func TestHosts(t *testing.T) {
	ip := netip.MustParseAddr
	s := daemon()
	s.Network.DHCP.Leases = []Lease{
		{IP: ip("192.168.105.9"), Hostname: "taken"},
		{IP: ip("192.168.105.10"), Hostname: "other", Name: "taken"},
		{IP: ip("192.168.105.4"), Hostname: "Ada's Mac.local", Name: ""},
		{IP: ip("192.168.105.5"), Hostname: "localhost"},
		{IP: ip("192.168.105.6"), Hostname: "-- --"},
		{IP: ip("192.168.105.7"), Hostname: "a\n10.0.0.1 bank"},
		{IP: ip("192.168.105.8"), Hostname: "8"},
	}
	s.Clients = []Client{
		{ID: 1, IP: ip("192.168.105.4"), Name: "known by its lease"},
		{ID: 2, IP: ip("192.168.105.2"), Name: "vm", Hostname: "gateway"},
		{ID: 3, Name: "without"},
		{ID: 4, IP: ip("192.168.105.11"), Name: strings.Repeat("é", 80) + strings.Repeat("x", 80)},
		{ID: 5, IP: ip("192.168.105.12"), Name: strings.Repeat("x", 80)},
		{ID: 6, IP: ip("192.168.105.13")},
	}
	assert.Equal(t, `# guests of socket_vmnet2 at /var/run/socket_vmnet
192.168.105.2 vm.vmnet.internal vm
192.168.105.4 ada-s-mac.vmnet.internal ada-s-mac
192.168.105.7 a-10.vmnet.internal a-10
192.168.105.10 taken.vmnet.internal taken
192.168.105.11 X62.vmnet.internal X62
192.168.105.12 X63.vmnet.internal X63
`, strings.ReplaceAll(strings.ReplaceAll(s.Hosts(), strings.Repeat("x", 63), "X63"), strings.Repeat("x", 62), "X62"))
}
