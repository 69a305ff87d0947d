// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestSocket starts the helper as minikube does and ends it as minikube does.
func TestSocket(t *testing.T) {
	d := newFake(t)
	path := filepath.Join(vnettest.ShortDir(t), "vmnet-helper.sock")
	h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path, "--interface-id", someUUID)
	x := d.next()
	assert.True(t, x.request.Wait)
	assert.Equal(t, strings.ToLower(someUUID), x.request.InterfaceID.String())
	assert.Equal(t, path, x.request.Name)
	assert.Equal(t, proto.Datagram, x.request.Transport)
	sa, err := unix.Getsockname(x.fd)
	require.NoError(t, err)
	assert.Equal(t, &unix.SockaddrUnix{Name: path}, sa)
	_, err = unix.Getpeername(x.fd)
	require.ErrorIs(t, err, unix.ENOTCONN, "the daemon finds the client")
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600)|os.ModeSocket, st.Mode())
	x.answer(t, reply)

	assert.Equal(t, "52:54:00:12:34:56", h.info().MACAddress)
	vfkit, err := net.DialUnix("unixgram", &net.UnixAddr{Name: path + ".c", Net: "unixgram"}, &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err, "once the line is there a machine may connect")
	defer vfkit.Close()

	assert.Equal(t, 0, h.stop())
	x.waitEnd(t)
	assert.NoFileExists(t, path)
	assert.NoFileExists(t, path+".lock")
}

// TestSignals ends the helper by each signal, and before the daemon has answered.
func TestSignals(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for _, answered := range []bool{true, false} {
			d := newFake(t)
			path := filepath.Join(vnettest.ShortDir(t), "s")
			h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
			x := d.next()
			if answered {
				x.answer(t, reply)
				h.info()
			}
			require.NoError(t, h.Process.Signal(s))
			assert.Equal(t, 0, h.exit(), "%v", s)
			x.waitEnd(t)
			assert.NoFileExists(t, path)
			assert.NoFileExists(t, path+".lock")
		}
	}
}

// TestMachineGone ends the session by the machine's end; TestMinikube ends one by the daemon's.
func TestMachineGone(t *testing.T) {
	d := newFake(t)
	path := filepath.Join(vnettest.ShortDir(t), "s")
	h, x := d.serve(path)
	machine, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path + ".c", Net: "unixgram"})
	require.NoError(t, err)
	defer machine.Close()
	require.NoError(t, unix.Connect(x.fd, &unix.SockaddrUnix{Name: path + ".c"})) // macOS shuts down connected ones only
	require.NoError(t, unix.Shutdown(x.fd, unix.SHUT_RDWR))
	x.end()
	assert.Equal(t, 0, h.exit())
	assert.Contains(t, h.stderr.String(), "closed by peer")
	assert.NoFileExists(t, path)
}

// TestDescriptor hands an inherited descriptor over, and keeps a copy until it ends: the machine learns then.
func TestDescriptor(t *testing.T) {
	d := newFake(t)
	machine, theirs := pair(t, proto.Datagram)
	h := runHelper(t, nil, []*os.File{theirs}, "--daemon", d.socket, "--fd", "3")
	theirs.Close()
	x := d.next()
	assert.Empty(t, x.request.Name, "a name that others have as well says nothing")
	x.answer(t, reply)
	h.info()
	_, err := machine.Write([]byte("frame"))
	require.NoError(t, err)
	buf := make([]byte, 16)
	n, err := unix.Read(x.fd, buf)
	require.NoError(t, err)
	assert.Equal(t, "frame", string(buf[:n]))

	require.NoError(t, unix.Close(x.fd))
	x.fd = proto.None
	_, err = machine.Write([]byte("frame"))
	require.NoError(t, err, "the helper has a copy")
	assert.Equal(t, 0, h.stop())
	_, err = machine.Write([]byte("frame"))
	require.Error(t, err, "no process has one")
}

func TestBadDescriptors(t *testing.T) {
	d := newFake(t)
	_, stream := pair(t, proto.Stream)
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	for arg, mention := range map[string]string{"3": "SOCK_DGRAM", "4": "--fd 4", "77": "bad file descriptor"} {
		h := runHelper(t, nil, []*os.File{stream, file}, "--daemon", d.socket, "--fd", arg)
		assert.Equal(t, 1, h.exit())
		assert.Contains(t, h.stderr.String(), mention)
	}
}

// TestOneSocketOneHelper has a second helper on a socket, which must not harm the first.
func TestOneSocketOneHelper(t *testing.T) {
	d := newFake(t)
	path := filepath.Join(vnettest.ShortDir(t), "s")
	first, _ := d.serve(path)
	second := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
	assert.Equal(t, 1, second.exit())
	assert.Contains(t, second.stderr.String(), "another vmnet-helper")
	_, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, 0, first.stop())

	third, _ := d.serve(path)
	require.NoError(t, third.Process.Kill())
	<-third.ended

	fourth, _ := d.serve(path)
	assert.Equal(t, 0, fourth.stop(), "what a killed one has left is no obstacle")
}

// TestStopAndStart starts a helper before the one on the same socket has ended. A lock that is held and then let go stands for that one.
func TestStopAndStart(t *testing.T) {
	for name, stop := range map[string]bool{"the other ends": false, "told to stop meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			d := newFake(t)
			path := filepath.Join(vnettest.ShortDir(t), "s")
			lock, err := os.Create(path + ".lock")
			require.NoError(t, err)
			defer lock.Close()
			require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
			h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
			require.Eventually(t, func() bool { return strings.Contains(h.stderr.String(), "waiting for another") }, testPatience, time.Millisecond)
			if !stop {
				require.NoError(t, os.Remove(lock.Name()))
				lock.Close()
				d.next().answer(t, reply)
				h.info()
			}
			assert.Equal(t, 0, h.stop())
		})
	}
}

func TestPathTaken(t *testing.T) {
	d := newFake(t)
	dir := vnettest.ShortDir(t)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	for path, mention := range map[string]string{
		file: "is not a socket", link: "is not a socket", dir + "/none/s": "no such file", dir: "is not a socket",
	} {
		h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
		assert.Equal(t, 1, h.exit())
		assert.Contains(t, h.stderr.String(), mention)
		assert.NoFileExists(t, path+".lock")
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
}

// TestAnotherNetwork is not taken; TestMinikube has what a daemon says no with.
func TestAnotherNetwork(t *testing.T) {
	host := reply
	host.Mode = "host"
	d := newFake(t)
	path := filepath.Join(vnettest.ShortDir(t), "s")
	h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
	x := d.next()
	x.answer(t, host)
	assert.Equal(t, 1, h.exit(), "and nothing on stdout")
	assert.Contains(t, h.stderr.String(), d.socket+" has a host network")
	x.waitEnd(t)
	assert.NoFileExists(t, path)
}

// TestNoDaemon has no daemon to ask.
func TestNoDaemon(t *testing.T) {
	dir := vnettest.ShortDir(t)
	h := runHelper(t, nil, nil, "--socket", filepath.Join(dir, "s"), "--daemon", filepath.Join(dir, "none"))
	assert.Equal(t, 1, h.exit())
	assert.Contains(t, h.stderr.String(), "no daemon runs at "+filepath.Join(dir, "none"))

	// Bridged to something that no daemon of this machine can be for.
	h = runHelper(t, nil, nil, "--socket", filepath.Join(dir, "s"), "--operation-mode=bridged", "--shared-interface=none0", "-v")
	assert.Equal(t, 1, h.exit())
	for _, text := range []string{"no daemon runs for", "/var/run/socket_vmnet.bridged.none0", "bridged.none0 = SOCKET", configName} {
		assert.Contains(t, h.stderr.String(), text)
	}
}

// TestSudo drops root's privileges before it makes anything.
func TestSudo(t *testing.T) {
	vnettest.NeedRoot(t)
	const nobody = 65534
	d := newFake(t)
	dir := vnettest.ShortDir(t)
	for _, path := range []string{dir, filepath.Dir(d.socket), d.socket + ".d", d.socket + ".d/adopt"} {
		require.NoError(t, os.Chown(path, nobody, nobody))
	}
	path := filepath.Join(dir, "s")
	h := runHelper(t, []string{"SUDO_UID=65534", "SUDO_GID=65534"}, nil, "--daemon", d.socket, "--socket", path)
	x := d.next()
	for _, p := range []string{path, path + ".lock"} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(p, &st))
		assert.EqualValues(t, nobody, st.Uid)
		assert.EqualValues(t, nobody, st.Gid)
	}
	x.answer(t, reply)
	h.info()
	assert.Equal(t, 0, h.stop())
	assert.Contains(t, h.stderr.String(), "dropped privileges to uid: 65534 gid: 65534")

	h = runHelper(t, []string{"SUDO_UID=x"}, nil, "--daemon", d.socket, "--socket", path)
	assert.Equal(t, 1, h.exit())
	assert.Contains(t, h.stderr.String(), "SUDO_UID")
}

// TestList asks the daemon's program, which is in ../bin.
func TestList(t *testing.T) {
	if runtime.GOOS != "darwin" {
		h := runHelper(t, nil, nil, "--list-shared-interfaces")
		assert.Equal(t, 1, h.exit())
		assert.Contains(t, h.stderr.String(), "vmnet needs macOS")
	}

	dir := vnettest.ShortDir(t)
	for _, d := range []string{"libexec", "bin"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.Link(filepath.Join(built, "libexec/vmnet-helper"), filepath.Join(dir, "libexec/vmnet-helper")))
	script := "#!/bin/sh\n[ \"$*\" = --list-interfaces ] && printf 'en0\\nen1\\n'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/socket_vmnet2"), []byte(script), 0o755))
	old := built
	built = dir
	defer func() { built = old }()
	h := runHelper(t, nil, nil, "--list-shared-interfaces")
	for _, want := range []string{"en0\n", "en1\n"} {
		line, err := h.out.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, want, line)
	}
	assert.Equal(t, 0, h.exit())
}
