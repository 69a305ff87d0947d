// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// TestDatagramLengths sends datagrams of each length that is worth a thought. What is a frame arrives where it fits, what is
// none harms nobody, not even its sender.
func TestDatagramLengths(t *testing.T) {
	p := startOpen(t)
	stream, dgram := over(t, p.stream()), over(t, p.unconnected())
	introduce(t, stream, dgram)
	for _, way := range p.datagramWays() {
		t.Run(way.Name, func(t *testing.T) {
			l := dialWay(t, way)
			mac := net.HardwareAddr{2, 0, 0, 0, 0xf, 1}
			hears(t, stream, "known", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "known")) })
			hears(t, dgram, "known", func() error { return l.Send(testFrame(fakeguest.Broadcast, mac, "known")) })
			ours := func(f []byte) bool { return bytes.Equal(f[6:12], mac) && !bytes.Equal(f[14:], []byte("known")) }
			onStream, onDgram := stream.Listen(ours), dgram.Listen(ours)
			defer onStream.Close()
			defer onDgram.Close()
			header := fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeTest, nil)
			var wantStream, wantDgram []int
			for _, n := range []int{
				0, 4, 13, 14, frame.MaxEthernetLen, frame.MaxStreamLen, frame.MaxStreamLen + 1, 64 << 10, fakeguest.MaxDatagramLen,
				fakeguest.MaxDatagramLen + 1, frame.MaxLen, frame.MaxLen + 1, 60,
			} {
				d := make([]byte, n)
				copy(d, header)
				err := l.Send(d)
				if runtime.GOOS == "darwin" && n > fakeguest.MaxDatagramLen && errors.Is(err, syscall.EMSGSIZE) {
					continue // the daemon made the socket, and macOS sends nothing longer than its buffer
				}
				require.NoError(t, err, "%d bytes", n)
				if n >= frame.MinLen && n <= min(carried(), fakeguest.MaxDatagramLen) {
					wantDgram = append(wantDgram, n)
					if n <= frame.MaxStreamLen {
						wantStream = append(wantStream, n)
					}
				}
			}
			assert.Equal(t, wantStream, lengths(t, onStream), "at a stream client")
			assert.Equal(t, wantDgram, lengths(t, onDgram), "at a datagram client")
			require.NoError(t, l.Close())
		})
	}
	introduce(t, stream, dgram)
}

// lengths are those of the frames that come until one of 60 bytes does.
func lengths(t *testing.T, l *fakeguest.Listener) (all []int) {
	t.Helper()
	for {
		f, err := l.Next(patience)
		require.NoError(t, err, "after frames of %v bytes", all)
		all = append(all, len(f))
		if len(f) == 60 {
			return all
		}
	}
}

// A gram is a client of the shared socket without anything around it.
type gram struct {
	*net.UnixConn
	t         *testing.T
	server    string
	connected bool
}

func (p *process) gram(t *testing.T, local string, connected bool) gram {
	t.Helper()
	g := gram{t: t, server: vnettest.DatagramPath(p.sock), connected: connected}
	addr := &net.UnixAddr{Name: local, Net: "unixgram"}
	var err error
	if connected {
		g.UnixConn, err = net.DialUnix("unixgram", addr, &net.UnixAddr{Name: g.server, Net: "unixgram"})
	} else {
		g.UnixConn, err = net.ListenUnixgram("unixgram", addr)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func (g gram) send(f []byte) error {
	_ = g.SetWriteDeadline(time.Now().Add(patience))
	if g.connected {
		_, err := g.Write(f)
		return err
	}
	_, err := g.WriteToUnix(f, &net.UnixAddr{Name: g.server, Net: "unixgram"})
	return err
}

// gets waits until a frame with text comes, which send sends again and again.
func (g gram) gets(text string, send func() error) {
	g.t.Helper()
	buf := make([]byte, 70000)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		require.NoError(g.t, send())
		_ = g.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		for {
			n, err := g.Read(buf)
			if err != nil {
				break
			}
			if n >= 14 && string(buf[14:n]) == text {
				return
			}
		}
	}
	require.Fail(g.t, "lost", "%q never came", text)
}

// TestClientsThatComeBack: a client that has been killed leaves its path behind; the next one at this path is served at once,
// also when nobody has noticed the first one's end, and also while the first one, whose path it took, is still there.
func TestClientsThatComeBack(t *testing.T) {
	p := startOpen(t)
	for i, connected := range []bool{true, false} {
		for j, ending := range []string{"killed", "killed and noticed", "still there"} {
			t.Run(fmt.Sprintf("connected %t %s", connected, ending), func(t *testing.T) {
				t.Parallel()
				mac := net.HardwareAddr{2, 0, 0, 0, 0xb, byte(3*i + j)}
				testComeBack(t, p, connected, ending, mac)
			})
		}
	}
}

func testComeBack(t *testing.T, p *process, connected bool, ending string, mac net.HardwareAddr) {
	s := over(t, p.stream())
	local := filepath.Join(shortDir(t), "c")
	toClient := func(text string) error { return s.Send(testFrame(mac, s.MAC(), text)) }
	for round := range 2 {
		c := p.gram(t, local, connected)
		word := fmt.Sprintf("%s, round %d", mac, round)
		here := func() error { return c.send(testFrame(fakeguest.Broadcast, mac, word)) }
		hears(t, s, word, here)
		c.gets(word, func() error { return errors.Join(here(), toClient(word)) })
		if ending != "still there" {
			require.NoError(t, c.Close())
		}
		if ending == "killed and noticed" {
			require.NoError(t, toClient("to nobody"))
			time.Sleep(20 * time.Millisecond)
		}
		require.NoError(t, os.Remove(local))
	}
}

// texts are those of the frames that have come.
func texts(l *fakeguest.Listener) (all []string) {
	for _, f := range l.Collect(10 * time.Millisecond) {
		all = append(all, string(f[14:]))
	}
	return all
}

// TestRootsSockets: a daemon of root sends to no socket that is root's, unless --allow-uid 0 is given; to others' it does.
func TestRootsSockets(t *testing.T) {
	root := os.Geteuid() == 0
	sock := filepath.Join(shortDir(t), "s")
	p := launch(t, "socket_vmnet2", sock, gatewayFlag)
	p.ready(t)
	p.servesDatagrams(t)
	s := over(t, p.stream())
	introduce(t, s, over(t, p.stream()))
	mac := net.HardwareAddr{2, 0, 0, 0, 0x9, 1}
	l := s.Listen(func(f []byte) bool { return bytes.Equal(f[6:12], mac) })
	for name, connected := range map[string]bool{"connected": true, "unconnected": false} {
		t.Run(name, func(t *testing.T) {
			local := filepath.Join(shortDir(t), "c")
			c := p.gram(t, local, connected)
			if root {
				for range 10 {
					require.NoError(t, c.send(testFrame(fakeguest.Broadcast, mac, "root's")))
				}
				assert.Empty(t, texts(l))
				require.Eventually(t, func() bool { return bytes.Contains([]byte(p.stderr.String()), []byte("--allow-uid 0")) },
					patience, 5*time.Millisecond, "it says what to do: %s", p.stderr)
				require.NoError(t, os.Chown(local, 65534, -1))
			}
			hears(t, s, "theirs", func() error { return c.send(testFrame(fakeguest.Broadcast, mac, "theirs")) })
			c.gets("answer", func() error { return s.Send(testFrame(mac, s.MAC(), "answer")) })
			texts(l)
		})
	}
}

// TestUserOutsideTheGroup: who may not use the network is told which group may.
func TestUserOutsideTheGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		return // it takes root to run a program as somebody else
	}
	require.NoError(t, os.Chmod(binaries, 0o755))
	const daemonGroup = 1
	group, err := user.LookupGroupId(strconv.Itoa(daemonGroup))
	require.NoError(t, err)
	p := startOpen(t, "--socket-group="+group.Name)
	run := func(gid uint32, command ...string) (string, int) {
		c := exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"exec", p.sock, "--"}, command...)...)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: gid}}
		c.Dir = "/"
		out, err := c.CombinedOutput()
		if err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError), "%s", out)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	for _, option := range []string{"--dgram", "--stream"} {
		out, code := run(65534, "true")
		assert.NotZero(t, code, option)
		assert.Contains(t, out, strconv.Quote(group.Name), option)
		assert.Contains(t, out, "ermission denied", option)
	}
	out, code := run(daemonGroup, "sh", "-c", "exit 7")
	assert.Equal(t, 7, code, "%s", out)

	for path, mode := range map[string]os.FileMode{
		p.sock + ".d": 0o750 | os.ModeDir, filepath.Dir(vnettest.DatagramPath(p.sock)): 0o770 | os.ModeSticky | os.ModeDir,
	} {
		fi, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, fi.Mode(), path)
		assert.EqualValues(t, daemonGroup, fi.Sys().(*syscall.Stat_t).Gid, path)
	}
}

// TestWithoutRuntimeDirectory: --runtime-dir=none has no such sockets and no warning.
func TestWithoutRuntimeDirectory(t *testing.T) {
	p := start(t, gatewayFlag, "--runtime-dir=none")
	p.talkers(t).check("stream clients are served")
	assert.NoDirExists(t, p.sock+".d")
	assert.NotContains(t, p.stderr.String(), "WARN")
}
