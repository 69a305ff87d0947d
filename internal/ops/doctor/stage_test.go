// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

var update = flag.Bool("update", false, "write testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A tree is a staged system: what is at a path. Text that begins with "#!" is a program, "-> " a link, "|" a pipe; "socket" is
// one at which nothing listens, "served" one at which this test does.
type tree map[string]string

func (t tree) with(others ...tree) tree {
	all := maps.Clone(t)
	for _, o := range others {
		maps.Copy(all, o)
	}
	return all
}

// build makes the tree below a new directory, whose path is short enough for sockets.
func (t tree) build(tb testing.TB) string {
	tb.Helper()
	root, err := os.MkdirTemp("/tmp", "d")
	require.NoError(tb, err)
	root, err = filepath.EvalSymlinks(root)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(root) })
	require.NoError(tb, os.Chmod(root, 0o755)) //nolint:gosec // as / is
	for path, content := range t {
		full := filepath.Join(root, path)
		require.NoError(tb, os.MkdirAll(filepath.Dir(full), 0o755))
		switch {
		case strings.HasPrefix(content, "-> "):
			require.NoError(tb, os.Symlink(content[3:], full))
		case content == "|":
			require.NoError(tb, syscall.Mkfifo(full, 0o644))
		case content == "dir":
			require.NoError(tb, os.MkdirAll(full, 0o755))
		case content == "socket", content == "served":
			ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: full, Net: "unix"})
			require.NoError(tb, err)
			ln.SetUnlinkOnClose(false)
			require.NoError(tb, os.Chmod(full, 0o777)) //nolint:gosec // as the test's groups are unknown
			if content == "socket" {
				require.NoError(tb, ln.Close())
			} else {
				tb.Cleanup(func() { _ = ln.Close() })
			}
		default:
			mode := fs.FileMode(0o644)
			if strings.HasPrefix(content, "#!") {
				mode = 0o755
			}
			require.NoError(tb, os.WriteFile(full, []byte(content), mode))
			require.NoError(tb, os.Chmod(full, mode))
		}
	}
	require.NoError(tb, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755) //nolint:gosec // whatever the umask
		}
		return err
	}))
	return root
}

// A stage is a tree and recorded answers.
type stage struct {
	tree      tree
	mode      map[string]fs.FileMode // of what is not 0755 or 0644
	goos      string
	answers   map[string]string // by command line
	processes string            // of ps
	addresses []string          // as in "en0 192.168.1.10/24"
	routes    []string
	daemons   map[string]status.Status // by control socket
	sockets   []string
	reach     string
	dial      map[string]error // by address, of guests
}

// system is the System of a stage.
func (s stage) system(tb testing.TB) System {
	tb.Helper()
	root := s.tree.build(tb)
	for path, mode := range s.mode {
		require.NoError(tb, os.Chmod(filepath.Join(root, path), mode))
		tb.Cleanup(func() { _ = os.Chmod(filepath.Join(root, path), 0o755) }) //nolint:gosec // so that it can be removed
	}
	sys := System{
		System: find.System{
			Root: root, Homes: []string{"/Users/ann"}, GOOS: s.goos, Program: "/download/socket_vmnet2", Version: "v0.0.0-new",
			Run: s.run, Processes: func(context.Context) ([]find.Process, error) { return find.ParsePS(s.processes), nil },
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if network == "unix" {
					return new(net.Dialer).DialContext(ctx, network, address)
				}
				return nil, s.dial[address]
			},
		},
		User: account{UID: 501, GID: 20, Groups: []int{12, 20, 80}, Name: "ann"}, Named: s.sockets,
		Table: func() (*freenet.Table, error) {
			return freenet.NewTable(conflicts(tb, s.addresses), conflicts(tb, s.routes)), nil
		},
		Group: func(gid int) string { return map[int]string{0: "wheel", 1: "daemon", 20: "staff", 80: "admin"}[gid] },
		Ask: func(_ context.Context, path string) (json.RawMessage, error) {
			st, ok := s.daemons[strings.TrimPrefix(path, root)]
			if !ok {
				return nil, fmt.Errorf("ask: %w", &net.OpError{Op: "dial", Err: syscall.ENOENT})
			}
			return json.Marshal(st)
		},
	}
	if s.goos == "" {
		sys.GOOS = "darwin"
	}
	if s.reach != "" {
		sys.Reach = netip.MustParseAddr(s.reach)
	}
	return sys
}

func (s stage) run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	out, ok := s.answers[line]
	if !ok {
		return nil, errors.New("exit status 1")
	}
	return []byte(out), nil
}

func conflicts(tb testing.TB, lines []string) (all []freenet.Conflict) {
	tb.Helper()
	for _, line := range lines {
		name, prefix, _ := strings.Cut(line, " ")
		p, err := netip.ParsePrefix(prefix)
		require.NoError(tb, err)
		all = append(all, freenet.Conflict{Name: name, Prefix: p})
	}
	return all
}

// cProgram is a file that has a version where the C compiler leaves it.
func cProgram(version string) string { return "#!/bin/false\n\x00" + version + "\x00" }

// job is a property list of launchd.
func job(label string, args ...string) string {
	return plistOf("<key>Label</key><string>" + label + "</string><key>ProgramArguments</key><array><string>" +
		strings.Join(args, "</string><string>") + "</string></array>")
}

func plistOf(dict string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict>` + dict + "</dict></plist>\n"
}

// lease is a block of /var/db/dhcpd_leases that ends in 2033.
func lease(ip, mac string) string {
	return "{\n\tname=vm\n\tip_address=" + ip + "\n\thw_address=1," + mac + "\n\tidentifier=1," + mac + "\n\tlease=0x77777777\n}\n"
}

// duidLease is one of a guest that names itself by a DUID, as tart's FAQ has it of Ubuntu.
func duidLease(ip string) string {
	const id = "ff,f1:f5:dd:7f:0:2:0:0:ab:11:cb:fb:30:b0:97:b6:3a:67"
	return "{\n\tname=ubuntu\n\tip_address=" + ip + "\n\thw_address=" + id + "\n\tidentifier=" + id + "\n\tlease=0x77777777\n}\n"
}

// ofLima is a file of Lima's as package find's tests have it: networks.yaml, or what limactl sudoers makes of that.
func ofLima(file string) string {
	b, err := os.ReadFile(filepath.Join("../find/testdata", file))
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer("PROGRAM", "/opt/socket_vmnet/bin/socket_vmnet", "GROUP", "admin").Replace(string(b))
}

const limaArgs = "/opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/shared_socket_vmnet.pid --socket-group=admin " +
	"--vmnet-mode=shared --vmnet-gateway=192.168.105.1 --vmnet-dhcp-end=192.168.105.254 --vmnet-mask=255.255.255.0 " +
	"/private/var/run/lima/socket_vmnet.shared"

// The answers of macOS's programs. The firewall's are as minikube reads them (pkg/minikube/firewall/firewall.go) and its list
// as in nix-darwin's issue 1705; launchctl's as launchctl(1) describes; sw_vers(1) prints the version alone; QEMU's as built.
var macOS15 = map[string]string{
	"/usr/bin/sw_vers -productVersion":                "15.3\n",
	firewall + " --getglobalstate":                    "Firewall is enabled. (State = 1) \n",
	firewall + " --getblockall":                       "Firewall has block all state set to disabled. \n",
	firewall + " --listapps":                          "Total number of apps = 1 \n1 : /usr/libexec/sharingd \n             (Allow incoming connections)\n",
	firewall + " --getallowsigned":                    "Automatically allow built-in signed software ENABLED. \nAutomatically allow downloaded signed software ENABLED. \n",
	"/bin/launchctl print-disabled system":            "\tdisabled services = {\n\t\t\"com.apple.ftpd\" => disabled\n\t\t\"com.openssh.sshd\" => enabled\n\t}\n",
	"/opt/homebrew/bin/qemu-system-aarch64 --version": "QEMU emulator version 10.1.0\nCopyright (c) 2003-2025 Fabrice Bellard and the QEMU Project developers\n",
}

// answers are those of macOS 15 with others.
func answers(others map[string]string) map[string]string {
	all := maps.Clone(macOS15)
	maps.Copy(all, others)
	return all
}
