// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lineFor is the line for one program on a Mac, where all of them are.
func lineFor(t *testing.T, name string, r tryReady, goos, gateway string) tryLine {
	t.Helper()
	for _, l := range tryLines(r, goos, netip.MustParseAddr(gateway), net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}) {
		if l.For == name {
			assert.NotEmpty(t, l.What)
			assert.True(t, l.Use == "" && l.Note != "" || l.Use != "" && l.Undo != "", "%+v", l)
			return l
		}
	}
	return tryLine{}
}

func TestTryLines(t *testing.T) {
	mac := tryReady{Socket: "/tmp/t/1/sock", Dgram: "/tmp/t/1/sock.d/dgram/sock", Client: "/opt/x/bin/socket_vmnet_client", Backend: "vmnet"}
	for name, want := range map[string]string{
		"lima-yaml": "networks:\n- socket: \"/tmp/t/1/sock\"",
		"lima":      `limactl start --tty=false --name=socket-vmnet2-try --set='.networks=[{"socket":"/tmp/t/1/sock"}]'`,
		"minikube": "minikube start --profile=socket-vmnet2-try --driver=qemu --network=socket_vmnet" +
			" --socket-vmnet-path=/tmp/t/1/sock --socket-vmnet-client-path=/opt/x/bin/socket_vmnet_client",
		"qemu": "-device virtio-net-pci,netdev=n0,mac=52:54:00:01:02:03" +
			" -netdev stream,id=n0,server=off,addr.type=unix,addr.path=/tmp/t/1/sock,reconnect-ms=500",
		"qemu-8.0": "-device virtio-net-pci,netdev=n0,mac=52:54:00:01:02:03" +
			" -netdev stream,id=n0,server=off,addr.type=unix,addr.path=/tmp/t/1/sock,reconnect=1",
		"qemu-7.2": "-device virtio-net-pci,netdev=n0,mac=52:54:00:01:02:03" +
			" -netdev stream,id=n0,server=off,addr.type=unix,addr.path=/tmp/t/1/sock",
		"qemu-old": "/opt/x/bin/socket_vmnet_client /tmp/t/1/sock qemu-system-..." +
			" -device virtio-net-pci,netdev=n0,mac=52:54:00:01:02:03 -netdev socket,id=n0,fd=3",
		"vfkit":   "vfkit ... --device virtio-net,unixSocketPath=/tmp/t/1/sock.d/dgram/sock,mac=52:54:00:01:02:03",
		"krunkit": "krunkit ... --device virtio-net,type=unixgram,path=/tmp/t/1/sock.d/dgram/sock,mac=52:54:00:01:02:03",
	} {
		assert.Equal(t, want, lineFor(t, name, mac, "darwin", "192.168.107.1").Use, name)
	}
	assert.Len(t, tryLines(mac, "darwin", netip.Addr{}, nil), 9)
	assert.Len(t, tryLines(mac, "linux", netip.Addr{}, nil), 7, "vfkit and krunkit are for macOS")
	mac.Dgram = ""
	assert.Len(t, tryLines(mac, "darwin", netip.Addr{}, nil), 7, "no socket for them")
}

// TestTryQuoting has each line read by what will read it.
func TestTryQuoting(t *testing.T) {
	for _, socket := range []string{"/tmp/1/sock", "/tmp/a b/sock", "/tmp/it's/sock", `/tmp/"$(x)"\/sock`, "/tmp/a,b/sock", "/tmp/a: b #c/sock", "/tmp/ü/sock"} {
		r := tryReady{Socket: socket, Dgram: socket + ".d/dgram/sock", Client: filepath.Dir(socket) + "/client", Backend: "vmnet"}
		var doc struct {
			Networks []struct{ Socket string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(lineFor(t, "lima-yaml", r, "darwin", "192.168.107.1").Use), &doc))
		require.Len(t, doc.Networks, 1)
		assert.Equal(t, socket, doc.Networks[0].Socket)

		words := func(name string) []string {
			t.Helper()
			out, err := exec.Command("/bin/sh", "-c", `printf '%s\n' `+lineFor(t, name, r, "darwin", "192.168.107.1").Use).Output()
			require.NoError(t, err)
			return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		}
		set := words("lima")
		doc.Networks = nil
		expression, ok := strings.CutPrefix(set[len(set)-1], "--set=.networks=")
		require.True(t, ok)
		require.NoError(t, yaml.Unmarshal([]byte(expression), &doc.Networks))
		assert.Equal(t, socket, doc.Networks[0].Socket)

		assert.Contains(t, words("minikube"), "--socket-vmnet-path="+socket)
		assert.Contains(t, words("minikube"), "--socket-vmnet-client-path="+r.Client)
		assert.Equal(t, []string{r.Client, socket}, words("qemu-old")[:2])
		assert.Contains(t, words("qemu"), "stream,id=n0,server=off,addr.type=unix,addr.path="+strings.ReplaceAll(socket, ",", ",,")+",reconnect-ms=500")
	}
}

func TestClientProgram(t *testing.T) {
	dir := t.TempDir()
	program, other := filepath.Join(dir, "bin", "socket_vmnet2"), filepath.Join(dir, "link")
	for _, d := range []string{filepath.Dir(program), other} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	linked := filepath.Join(other, "socket_vmnet2")
	require.NoError(t, os.Symlink(program, linked))
	at := func(path string, err error) func() (string, error) {
		return func() (string, error) { return path, err }
	}
	client := filepath.Join(dir, "bin", "socket_vmnet_client")
	assert.Empty(t, clientProgram(at(program, nil)), "there is none")
	require.NoError(t, os.WriteFile(client, nil, 0o644))
	assert.Empty(t, clientProgram(at(program, nil)), "it is no program")
	require.NoError(t, os.Chmod(client, 0o755))
	want, err := filepath.EvalSymlinks(client)
	require.NoError(t, err)
	assert.Equal(t, want, clientProgram(at(program, nil)))
	assert.Equal(t, want, clientProgram(at(linked, nil)), "beside what the link leads to")
	assert.Empty(t, clientProgram(at("", errors.New("no /proc"))))
}
