// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A given is what one option of a command line changes in a Config.
type given func(*Config)

func group(g string) given { return func(c *Config) { c.SocketGroup, c.SocketGroupSet = g, true } }

func pidfile(p string) given { return func(c *Config) { c.Pidfile, c.PidfileSet = p, true } }

func mode(m network.Mode) given { return func(c *Config) { c.Mode = m } }

func iface(i string) given { return func(c *Config) { c.Interface = i } }

func noDHCP(c *Config) { c.DisableDHCP = true }

// subnet is a gateway in a /24 and the end of its pool, which may be given or not.
func subnet(gw, end string, endSet bool) given {
	return func(c *Config) {
		c.Gateway, c.DHCPEnd, c.DHCPEndSet = netip.MustParseAddr(gw), netip.MustParseAddr(end), endSet
		c.Subnet = netip.PrefixFrom(c.Gateway, 24).Masked()
	}
}

// clientLines are the command lines of programs that start socket_vmnet. Rancher Desktop's and Finch's are Lima's with other values, and
// those of Homebrew's service are launchd's.
var clientLines = []struct {
	name, argv, socket string
	want               []given
}{
	{
		"lima shared",
		"/opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/shared_socket_vmnet.pid --socket-group=admin --vmnet-mode=shared --vmnet-gateway=192.168.105.1 --vmnet-dhcp-end=192.168.105.254 --vmnet-mask=255.255.255.0 /private/var/run/lima/socket_vmnet.shared",
		"/private/var/run/lima/socket_vmnet.shared",
		[]given{pidfile("/private/var/run/lima/shared_socket_vmnet.pid"), group("admin"), mode("shared"), subnet("192.168.105.1", "192.168.105.254", true)},
	},
	{
		"lima host",
		"/opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/host_socket_vmnet.pid --socket-group=everyone --vmnet-mode=host --vmnet-gateway=192.168.106.1 --vmnet-dhcp-end=192.168.106.254 --vmnet-mask=255.255.255.0 /private/var/run/lima/socket_vmnet.host",
		"/private/var/run/lima/socket_vmnet.host",
		[]given{pidfile("/private/var/run/lima/host_socket_vmnet.pid"), group("everyone"), mode("host"), subnet("192.168.106.1", "192.168.106.254", true)},
	},
	{
		"lima bridged",
		"/opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/bridged_socket_vmnet.pid --socket-group=admin --vmnet-mode=bridged --vmnet-interface=en0 /private/var/run/lima/socket_vmnet.bridged",
		"/private/var/run/lima/socket_vmnet.bridged",
		[]given{pidfile("/private/var/run/lima/bridged_socket_vmnet.pid"), group("admin"), mode("bridged"), iface("en0")},
	},
	{
		"colima shared",
		"/opt/colima/bin/socket_vmnet --vmnet-mode shared --socket-group staff --vmnet-gateway 192.168.106.1 --vmnet-dhcp-end 192.168.106.254 --pidfile /opt/colima/run/vmnet-default.pid /Users/me/.colima/default/daemon/vmnet.sock",
		"/Users/me/.colima/default/daemon/vmnet.sock",
		[]given{pidfile("/opt/colima/run/vmnet-default.pid"), group("staff"), subnet("192.168.106.1", "192.168.106.254", true)},
	},
	{
		"colima bridged",
		"/opt/colima/bin/socket_vmnet --vmnet-mode bridged --socket-group staff --vmnet-interface en0 --pidfile /opt/colima/run/vmnet-default.pid /Users/me/.colima/default/daemon/vmnet.sock",
		"/Users/me/.colima/default/daemon/vmnet.sock",
		[]given{pidfile("/opt/colima/run/vmnet-default.pid"), group("staff"), mode("bridged"), iface("en0")},
	},
	{
		"launchd and sudoers, minikube's daemon",
		"/opt/socket_vmnet/bin/socket_vmnet --vmnet-gateway=192.168.105.1 /var/run/socket_vmnet",
		"/var/run/socket_vmnet",
		[]given{subnet("192.168.105.1", "192.168.105.254", false)},
	},
	{
		"launchd bridged",
		"/opt/socket_vmnet/bin/socket_vmnet --vmnet-mode=bridged --vmnet-interface=en0 /var/run/socket_vmnet.bridged.en0",
		"/var/run/socket_vmnet.bridged.en0",
		[]given{mode("bridged"), iface("en0")},
	},
	{
		"homebrew test",
		"/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet /dev/null",
		"/dev/null",
		[]given{func(c *Config) {
			c.Warnings = []string{"--vmnet-gateway=IP should be explicitly specified to avoid conflicting with other applications"}
		}},
	},
	{
		"upstream's test without DHCP",
		"/opt/socket_vmnet/bin/socket_vmnet --pidfile /tmp/p --vmnet-disable-dhcp --vmnet-gateway=192.168.106.1 --socket-group=staff /var/run/socket_vmnet.disable-dhcp",
		"/var/run/socket_vmnet.disable-dhcp",
		[]given{pidfile("/tmp/p"), group("staff"), noDHCP, subnet("192.168.106.1", "192.168.106.254", false)},
	},
	{
		"options behind the socket",
		"socket_vmnet /opt/homebrew/var/run/socket_vmnet --vmnet-mode=host --vmnet-gateway=192.168.100.1",
		"/opt/homebrew/var/run/socket_vmnet",
		[]given{mode("host"), subnet("192.168.100.1", "192.168.100.254", false)},
	},
}

// TestClientsCommandLines: both personalities read them alike. sudo matches them literally, so none can ever be changed.
func TestClientsCommandLines(t *testing.T) {
	for _, c := range clientLines {
		t.Run(c.name, func(t *testing.T) {
			want := defaultConfig()
			want.SocketPath = c.socket
			for _, w := range c.want {
				w(&want)
			}
			argv := strings.Fields(c.argv)
			for _, p := range []Personality{PersonalityOf(argv[0]), New} {
				r := parse(t, p, argv)
				require.NotNil(t, r.cfg, r.stderr)
				assert.Equal(t, &want, r.cfg)
				assert.Empty(t, r.stdout)
				assert.Empty(t, r.stderr)
			}
		})
	}
}

// TestUsage: the text has every option, the old one in the order of the table, in lines that are not too long.
func TestUsage(t *testing.T) {
	assert.Len(t, Flags(Old), 13, "socket_vmnet has thirteen")
	for _, p := range []Personality{Old, New} {
		r := parse(t, p, []string{"/x/prog", "--help"})
		assert.Zero(t, r.code)
		assert.Empty(t, r.stderr)
		name := map[Personality]string{Old: "/x/prog", New: Program}[p]
		assert.True(t, strings.HasPrefix(r.stdout, "Usage: "+name+" [OPTION]... SOCKET\n"))
		assert.Contains(t, r.stdout, "\nVersion: "+Version+"\n")
		rest := r.stdout
		for _, it := range Items(Flags(p)) {
			_, after, ok := strings.Cut(rest, it.head())
			assert.True(t, ok, it.Name)
			if p == Old {
				rest = after
			}
		}
		for line := range strings.Lines(r.stdout) {
			assert.LessOrEqual(t, len(line), 121, line)
		}
	}
	t.Run("socket_vmnet's, byte for byte", func(t *testing.T) {
		want, err := os.ReadFile("testdata/usage.txt")
		require.NoError(t, err)
		assert.Equal(t, string(want), parse(t, Old, []string{"./socket_vmnet", "-h"}).stdout)
	})
	t.Run("no argv at all", func(t *testing.T) {
		r := parse(t, Old, nil)
		assert.Equal(t, 1, r.code)
		assert.True(t, strings.HasPrefix(r.stdout, "Usage: socket_vmnet "))
	})
}

// FuzzScanner: no command line makes the parser panic, and every one ends in exactly one of its ways.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		"/s", "/s\n--vmnet-mode=host", "-p/pid\n/s", "-p=/pid\n/s", "-hv", "--\n/s", "--vmnet-i\nx", "--pid\n--\n/s", "-", "--=x\n/s",
		"--vmnet-gateway=10.1\n--vmnet-mask\n0xffffff00\n/s", "--queue-size=64K\n/s", "--dns-record=a=1.2.3.4\n--dns-record=b=1.2.3.5\n/s",
		"--runtime-dir=none\n--allow-uid=0\n--allow-uid=501\n/s", "--vmnet-nat66-prefix=fd00::\n/s", "-vmnet-mode=x", "--socket-mode=0700\n--\n-x", "--list-interfaces", "--list\n/s\n/t",
		"--vmnet-gateway=10.1\n--vmnet-reserve=52:54:00:12:34:56=10.0.0.9\n--vmnet-forward=tcp:1=10.0.0.9:2\n--isolate\n--offload\n/s",
		"--vmnet-api=network\n--vmnet-interfaces=one\n--vmnet-mtu=9000\n--vmnet-disable-nat44\n--vmnet-disable-ra\n/s", "--\xff\x00", "-\x00",
	} {
		f.Add(seed, false, true)
		f.Add(seed, true, false)
	}
	f.Fuzz(func(t *testing.T, text string, posixly, old bool) {
		p := New
		if old {
			p = Old
		}
		var env []string
		if posixly {
			env = []string{"POSIXLY_CORRECT"}
		}
		argv := append([]string{"prog"}, strings.Split(text, "\n")...)
		r := parse(t, p, argv, env...)
		if r.cfg == nil {
			if r.code == 0 {
				require.NotEmpty(t, r.stdout)
			} else {
				require.NotEmpty(t, r.stdout+r.stderr)
			}
			return
		}
		require.Zero(t, r.code)
		require.Empty(t, r.stdout+r.stderr)
	})
}

// FuzzEscape: whatever a guest calls itself, a log line stays one line of printable text.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\nb", "\x1b[31m", "\xff\xfe", "\u202e", "bücher", `"\`, "\u2028", "\x7f", "\ufffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, whole := strings.CutSuffix(logged(slog.LevelInfo, func(l *slog.Logger) { l.Info(s, "key", s, s, s) }), "\n")
		require.True(t, whole)
		for _, r := range out {
			require.False(t, r < ' ' || r == 0x7f || r == '\u2028' || r == '\u202e', "%q", out)
		}
		require.True(t, utf8.ValidString(out), "%q", out)
		require.Equal(t, escape(s), escape(escape(s)))
	})
}
