// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// try runs the subcommand and does not wait for it.
func try(t *testing.T, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "darwin" {
		args = append([]string{"--backend=usernet"}, args...)
	}
	return runDaemon(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"try"}, args...)...), "")
}

// triedOut waits until p, which was started with --json, tells that it is ready.
func (p *process) triedOut(t *testing.T) (v tryReady) {
	t.Helper()
	var line string
	require.Eventually(t, func() (ok bool) {
		line, _, ok = strings.Cut(p.stdout.String(), "\n")
		return ok || !p.alive()
	}, patience, 5*time.Millisecond, "%s", p.stderr)
	require.NoError(t, json.Unmarshal([]byte(line), &v), "%s\n%s", line, p.stderr)
	p.sock = v.Socket
	return v
}

func TestTryGuest(t *testing.T) {
	p := try(t, "--json")
	v := p.triedOut(t)
	assert.Equal(t, p.Process.Pid, v.PID)
	assert.Equal(t, "usernet", v.Backend)
	assert.Equal(t, "shared", v.Mode)
	dir := filepath.Dir(v.Socket)
	assert.Regexp(t, `^/tmp/socket_vmnet2-try-\d+$`, dir)
	assert.Equal(t, v.Socket+".d/dgram/sock", v.Dgram)
	info, err := os.Lstat(v.Dgram)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket, info.Mode().Type())

	subnet := netip.MustParsePrefix(v.Subnet)
	assert.Equal(t, 24, subnet.Bits())
	assert.Equal(t, subnet.Addr().Next().String(), v.Gateway)
	table, err := freenet.System()
	require.NoError(t, err)
	assert.Empty(t, table.Overlaps(subnet))

	g, err := fakeguest.Dial(v.Socket, fakeguest.Options{Name: "trial", Timeout: patience})
	require.NoError(t, err)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, subnet.Contains(lease.Addr.Addr()), lease.Addr.String())
	_, err = g.Ping(netip.MustParseAddr(v.Gateway), 3)
	require.NoError(t, err)
	g.Close()
	for _, event := range []string{"client connected", "client address", "client gone"} {
		p.says(t, event)
	}
	_, out, _ := call("status")
	assert.Contains(t, out, v.Socket, "found among this machine's daemons")
	_, _, out = call("upgrade", v.Socket)
	assert.Contains(t, out, "not upgraded", "and it goes on")
	p.ready(t)

	p.interrupt(t)
	assert.NoDirExists(t, dir)
}

func TestTryText(t *testing.T) {
	bin := t.TempDir() // what is installed
	for _, program := range []string{"limactl", "krunkit", "qemu-system-x86_64"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	p := try(t)
	p.shows(t, "Ctrl-C", 1)
	text := p.stdout.String()
	dir := regexp.MustCompile(`The network is ready: (\S+)/sock on usernet\n`).FindStringSubmatch(text)[1]
	assert.Contains(t, text, "    networks:\n    - socket: \""+dir+"/sock\"\n")
	assert.Contains(t, text, "  undo: limactl delete --force socket-vmnet2-try\n")
	if runtime.GOOS == "linux" {
		assert.NotContains(t, text, "minikube")
		assert.LessOrEqual(t, strings.Count(text, "\n"), 25)
	}
	p.stop(t)
	assert.NoDirExists(t, dir)
}

// TestTryRefused: bad command lines change nothing and say what is wrong.
func TestTryRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--vmnet-dhcp-end=192.168.7.9":                                  "--vmnet-gateway=IP is needed",
		"--vmnet-mode=bridged --vmnet-interface=eth0 --backend=usernet": "bridged mode needs macOS vmnet",
		"--socket-group=nosuchgroup":                                    `unknown group name "nosuchgroup"`,
		"--socket-user=nosuchuser":                                      `unknown user name "nosuchuser"`,
	} {
		t.Run(args, func(t *testing.T) {
			p := try(t, strings.Fields(args)...)
			p.exits(t, 1)
			assert.True(t, strings.HasPrefix(p.stderr.String(), "ERROR| "), "%s", p.stderr)
			assert.Contains(t, p.stderr.String(), want)
			assert.Empty(t, p.stdout.String())
		})
	}
}

// lineFor is the line for one program on a Mac, where all of them are.
func lineFor(t *testing.T, name string, r tryReady) tryLine {
	t.Helper()
	for _, l := range tryLines(r, "darwin", net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}) {
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
			" -netdev stream,id=n0,server=off,addr.type=unix,addr.path=/tmp/t/1/sock",
		"qemu-old": "/opt/x/bin/socket_vmnet_client /tmp/t/1/sock qemu-system-..." +
			" -device virtio-net-pci,netdev=n0,mac=52:54:00:01:02:03 -netdev socket,id=n0,fd=3",
		"vfkit":   "vfkit ... --device virtio-net,unixSocketPath=/tmp/t/1/sock.d/dgram/sock,mac=52:54:00:01:02:03",
		"krunkit": "krunkit ... --device virtio-net,type=unixgram,path=/tmp/t/1/sock.d/dgram/sock,mac=52:54:00:01:02:03",
	} {
		assert.Equal(t, want, lineFor(t, name, mac).Use, name)
	}
	assert.Len(t, tryLines(mac, "darwin", nil), 7)
	assert.Len(t, tryLines(mac, "linux", nil), 4, "minikube, vfkit and krunkit are for macOS")
	mac.Dgram = ""
	assert.Len(t, tryLines(mac, "darwin", nil), 5, "no socket for them")
}

// TestTryQuoting has each line read by what will read it.
func TestTryQuoting(t *testing.T) {
	for _, socket := range []string{"/tmp/1/sock", "/tmp/a b/sock", "/tmp/it's/sock", `/tmp/"$(x)"\/sock`, "/tmp/a,b/sock", "/tmp/a: b #c/sock", "/tmp/ü/sock"} {
		r := tryReady{Socket: socket, Dgram: socket + ".d/dgram/sock", Client: filepath.Dir(socket) + "/client", Backend: "vmnet"}
		words := func(name string) []string {
			t.Helper()
			out, err := exec.Command("/bin/sh", "-c", `printf '%s\n' `+lineFor(t, name, r).Use).Output()
			require.NoError(t, err)
			return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		}
		assert.Contains(t, words("minikube"), "--socket-vmnet-path="+socket)
		assert.Contains(t, words("minikube"), "--socket-vmnet-client-path="+r.Client)
		assert.Equal(t, []string{r.Client, socket}, words("qemu-old")[:2])
		assert.Contains(t, words("qemu"), "stream,id=n0,server=off,addr.type=unix,addr.path="+strings.ReplaceAll(socket, ",", ",,"))
	}
}

// TestProgramsHere: nothing is left out of what is installed, and with nothing it is a line for QEMU.
func TestProgramsHere(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if installed("limactl")+installed("minikube")+installed("vfkit")+installed("krunkit")+installed("qemu-system-x86_64")+installed("qemu-system-aarch64") == "" {
		assert.Equal(t, []string{"qemu", "qemu-old"}, programsHere())
	}
	for _, program := range []string{"limactl", "minikube", "qemu-system-aarch64"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o755))
	}
	assert.Subset(t, programsHere(), []string{"lima", "lima-yaml", "minikube", "qemu"})
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
