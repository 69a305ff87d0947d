// SPDX-License-Identifier: Apache-2.0

package find

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tree is a staged macOS: what is at a path. Text that begins with "#!" is a program, "-> " a link, "|" a pipe;
// "socket" is one at which nothing listens.
type tree map[string]string

// cProgram is a file that has a version where the C compiler leaves it.
func cProgram(version string) string { return "#!/bin/false\n\x00" + version + "\x00" }

// with adds other trees to a copy of t.
func (t tree) with(others ...tree) tree {
	all := tree{}
	for _, o := range append([]tree{t}, others...) {
		maps.Copy(all, o)
	}
	return all
}

// build makes the tree below a new directory, whose path is short enough for sockets.
func (t tree) build(tb testing.TB) string {
	tb.Helper()
	root, err := os.MkdirTemp("/tmp", "f")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(root) })
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
		case content == "socket":
			ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: full, Net: "unix"})
			require.NoError(tb, err)
			ln.SetUnlinkOnClose(false)
			require.NoError(tb, ln.Close())
		default:
			mode := map[bool]fs.FileMode{true: 0o755, false: 0o644}[strings.HasPrefix(content, "#!")]
			require.NoError(tb, os.WriteFile(full, []byte(content), mode))
			require.NoError(tb, os.Chmod(full, mode)) // whatever the umask
		}
	}
	return root
}

// job is a property list of launchd.
func job(label string, args ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>Label</key><string>` + label +
		"</string><key>ProgramArguments</key><array><string>" + strings.Join(args, "</string><string>") + "</string></array></dict></plist>\n"
}

// ofLima is a file of Lima's with its three networks: networks.yaml, or what limactl sudoers makes of that.
func ofLima(file, program, group string) string {
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer("PROGRAM", program, "GROUP", group).Replace(string(b))
}

// What installers leave.
var (
	// socket_vmnet's make install.bin install.doc, and install.launchd.plist with BRIDGED=en0.
	upstreamBin = tree{
		"/opt/socket_vmnet/bin/socket_vmnet":        cProgram("v1.2.2"),
		"/opt/socket_vmnet/bin/socket_vmnet_client": cProgram("v1.2.2"),
	}
	upstreamJob = tree{
		"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": job("io.github.lima-vm.socket_vmnet",
			"/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
	}
	upstreamBridged = tree{
		"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.bridged.en0.plist": job("io.github.lima-vm.socket_vmnet.bridged.en0",
			"/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-mode=bridged", "--vmnet-interface=en0", "/var/run/socket_vmnet.bridged.en0"),
	}
	brew = tree{
		"/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet":        cProgram("1.1.6"),
		"/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet_client": cProgram("1.1.6"),
		"/opt/homebrew/opt/socket_vmnet":                                  "-> ../Cellar/socket_vmnet/1.1.6",
		"/opt/homebrew/var/run/.keep":                                     "",
	}
	brewJob = tree{
		"/Library/LaunchDaemons/homebrew.mxcl.socket_vmnet.plist": job("homebrew.mxcl.socket_vmnet",
			"/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/opt/homebrew/var/run/socket_vmnet"),
	}
	macPorts = tree{
		"/opt/local/bin/socket_vmnet":        cProgram("v1.2.2"),
		"/opt/local/bin/socket_vmnet_client": cProgram("v1.2.2"),
		"/Library/LaunchDaemons/org.macports.socket_vmnet.plist": job("org.macports.socket_vmnet",
			"/opt/local/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
	}
	colima = tree{
		"/opt/colima/bin/socket_vmnet":           cProgram("v1.1.5"),
		"/opt/colima/bin/socket_vmnet_client":    cProgram("v1.1.5"),
		"/private/etc/sudoers.d/colima":          "# starting vmnet daemon\n",
		"/etc":                                   "-> private/etc",
		"/Users/ann/.colima/default/colima.yaml": "cpu: 2\nvmType: qemu\nnetwork:\n  address: true\n  mode: shared\n  interface: en0\n",
		"/Users/ann/.colima/_lima/colima/ha.pid": "4711\n",
		"/Users/ann/.colima/vz/colima.yaml":      "vmType: vz\nnetwork:\n  address: true\n",
		"/Users/ann/.colima/br/colima.yaml":      "vmType: vz\nnetwork:\n  address: true\n  mode: bridged\n",
	}
)

// limaManaged is Lima with networks of its own, an instance of QEMU that runs and one of VZ that does not.
func limaManaged(program string) tree {
	return tree{
		"/Users/ann/.lima/_config/networks.yaml": ofLima("networks.yaml", program, "admin"),
		"/private/etc/sudoers.d/lima":            ofLima("sudoers", program, "admin"),
		"/Users/ann/.lima/dev/lima.yaml":         "vmType: qemu\nnetworks:\n- lima: shared\n",
		"/Users/ann/.lima/dev/qemu.pid":          "4242\n",
		"/Users/ann/.lima/dev/ha.pid":            "4241\n",
		"/Users/ann/.lima/box/lima.yaml":         "vmType: vz\nnetworks:\n- lima: shared\n- lima: user-v2\n",
	}
}

// limaSocket is an instance on a daemon that Lima does not start.
func limaSocket(socket, vmType string) tree {
	return tree{
		"/Users/ann/.lima/sock/lima.yaml": "vmType: " + vmType + "\nnetworks:\n- socket: \"" + socket + "\"\n",
		"/Users/ann/.lima/sock/ha.pid":    "5151",
		"/Users/ann/.lima/sock/vz.pid":    "5151",
	}
}

// minikube is a profile with QEMU.
func minikube(socket, client string) tree {
	return tree{
		"/Users/ann/.minikube/profiles/minikube/config.json": fmt.Sprintf(
			`{"Name":"minikube","Driver":"qemu2","Network":"socket_vmnet","SocketVMnetPath":%q,"SocketVMnetClientPath":%q}`, socket, client),
		"/Users/ann/.minikube/machines/minikube/qemu.pid": "6161",
	}
}
