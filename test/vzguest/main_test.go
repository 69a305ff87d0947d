// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	kernel, disk := filepath.Join(dir, "Image"), filepath.Join(dir, "disk")
	for _, name := range []string{kernel, disk} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct {
		name, args, want string // want: the error's text, empty for none
	}{
		{"kernel", "--kernel " + kernel, ""},
		{"all of a kernel", "--kernel " + kernel + " --initrd " + disk + " --cmdline quiet --disk " + disk + " --cpus 2 --memory 1024 --mac 52:54:00:12:34:56 --transport adopt", ""},
		{"disk", "--disk " + disk + " --efi-store " + filepath.Join(dir, "new"), ""},
		{"nothing", "", "nothing to boot"},
		{"initrd alone", "--disk " + disk + " --initrd " + disk, "need --kernel"},
		{"store beside a kernel", "--kernel " + kernel + " --efi-store x", "without --kernel"},
		{"no such file", "--kernel " + dir + "/none", "no such file"},
		{"directory", "--disk " + dir, "is no file"},
		{"transport", "--kernel " + kernel + " --transport stream", "--transport=stream: use dgram or adopt"},
		{"no processor", "--kernel " + kernel + " --cpus 0", "--cpus=0: use 1 to 256"},
		{"little memory", "--kernel " + kernel + " --memory 63", "--memory=63: use 64 to 1048576 MiB"},
		{"group's address", "--kernel " + kernel + " --mac 01:00:5e:00:00:01", "--mac=01:00:5e:00:00:01"},
		{"no address", "--kernel " + kernel + " --mac x", "--mac=x"},
		{"negative time", "--kernel " + kernel + " --timeout -1s", "is negative"},
		{"operand", "--kernel " + kernel + " x", `unexpected argument "x"`},
		{"unknown", "--bridged", "-bridged; --help lists the options"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			o, err := parse(strings.Fields(c.args), &log)
			if err == nil {
				err = o.check()
			}
			assert.Empty(t, log.String())
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				assert.Equal(t, exitUsage, run(strings.Fields(c.args), &log))
				assert.True(t, strings.HasPrefix(log.String(), "vzguest: "), log.String())
				return
			}
			require.NoError(t, err)
			assert.Len(t, o.mac, 6)
		})
	}
	o, err := parse([]string{"--kernel", kernel}, &strings.Builder{})
	require.NoError(t, err)
	require.NoError(t, o.check())
	assert.Equal(t, "console=hvc0", o.cmdline)
	var log strings.Builder
	assert.Zero(t, run([]string{"--help"}, &log))
	for _, name := range []string{"socket", "transport", "kernel", "initrd", "cmdline", "disk", "efi-store", "cpus", "memory", "mac", "timeout"} {
		assert.Contains(t, log.String(), "  -"+name+" ")
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{fmt.Errorf("%w: because", errNetworkLost), 3},
		{errTimeout, 124},
		{errSignal{syscall.SIGTERM}, 143},
		{errors.Join(errSignal{syscall.SIGINT}, errors.New("x")), 130},
	} {
		assert.Equal(t, c.want, exitCode(c.err), "%v", c.err)
	}
}

func TestUntilSignal(t *testing.T) {
	ctx, stop := untilSignal(0)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-ctx.Done()
	assert.Equal(t, 129, exitCode(context.Cause(ctx)))
	stop(nil)
	ctx, stop = untilSignal(time.Millisecond)
	<-ctx.Done()
	assert.Equal(t, exitTimeout, exitCode(context.Cause(ctx)))
	stop(nil)
	ctx, stop = untilSignal(time.Hour)
	stop(errNetworkLost)
	<-ctx.Done()
	assert.Equal(t, exitNetwork, exitCode(context.Cause(ctx)))
}

// daemon answers one request on SOCKET.d/attach or adopt, with reply, and serves it until end is closed. It returns SOCKET.
func daemon(t *testing.T, name, reply string, end <-chan struct{}, use func(request string, link *os.File)) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "vzg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Mkdir(dir+"/s.d", 0o700))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/s.d/" + name, Net: "unix"})
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		c, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		m, err := proto.ReadMessage(c, proto.MaxLine)
		if !assert.NoError(t, err) {
			return
		}
		link, pass := m.FD, proto.None
		if name == "attach" {
			if link, pass, err = proto.Pair(proto.Datagram); !assert.NoError(t, err) {
				return
			}
		}
		assert.NoError(t, proto.WriteMessage(c, []byte(reply+"\n"), pass))
		if pass != proto.None {
			_ = syscall.Close(pass)
		}
		if link != proto.None {
			f := os.NewFile(uintptr(link), "link")
			use(string(m.Line), f)
			defer func() { _ = f.Close() }()
		}
		<-end
	}()
	return dir + "/s"
}

// TestConnect: both ways lead to a datagram socket at whose other end the daemon is, and its end is noticed.
func TestConnect(t *testing.T) {
	const reply = `{"version":1,"transport":"dgram","backend":"usernet","mode":"shared","gateway":"192.168.105.1","vmnet_mtu":1500}`
	for transport, name := range map[string]string{byAttach: "attach", byAdopt: "adopt"} {
		t.Run(transport, func(t *testing.T) {
			end, requests := make(chan struct{}), make(chan string, 1)
			socket := daemon(t, name, reply, end, func(request string, link *os.File) {
				requests <- request
				_, err := link.WriteString("frame")
				assert.NoError(t, err)
			})
			mac := net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}
			n, err := connect(t.Context(), options{socket: socket, transport: transport, name: "me", mac: mac})
			require.NoError(t, err)
			defer n.close()
			request := <-requests
			assert.Contains(t, request, `"mac":"52:54:00:01:02:03"`)
			assert.Contains(t, request, `"name":"me"`)
			b := make([]byte, 64)
			got, err := n.file.Read(b)
			require.NoError(t, err)
			assert.Equal(t, "frame", string(b[:got]))
			assert.Equal(t, "mac=52:54:00:01:02:03 transport="+transport+" backend=usernet mode=shared gateway=192.168.105.1 mtu=1500", n.describe(mac))
			ended := make(chan struct{})
			n.watch(func() { close(ended) })
			select {
			case <-ended:
				t.Fatal("the connection has ended too soon")
			case <-time.After(20 * time.Millisecond):
			}
			close(end)
			<-ended
		})
	}
	t.Run("refused", func(t *testing.T) {
		for transport, name := range map[string]string{byAttach: "attach", byAdopt: "adopt"} {
			end := make(chan struct{})
			socket := daemon(t, name, `{"version":1,"error":{"code":"full","text":"no room"}}`, end, func(string, *os.File) {})
			_, err := connect(t.Context(), options{socket: socket, transport: transport, name: "me"})
			require.ErrorContains(t, err, "no room")
			close(end)
		}
	})
	t.Run("no daemon", func(t *testing.T) {
		for _, transport := range []string{byAttach, byAdopt} {
			_, err := connect(t.Context(), options{socket: "/nowhere", transport: transport, name: "me"})
			require.ErrorContains(t, err, "no daemon runs at /nowhere")
		}
	})
	t.Run("closed by us", func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		socket := daemon(t, "attach", reply, end, func(string, *os.File) {})
		n, err := connect(t.Context(), options{socket: socket, transport: byAttach, name: "me"})
		require.NoError(t, err)
		n.watch(func() { t.Error("the daemon has not ended it") })
		n.close()
	})
}
