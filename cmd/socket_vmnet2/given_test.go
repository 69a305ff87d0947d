// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A manager is a service manager: it makes sockets and starts daemons with them, one after the other. Root's are in a PID namespace
// where their parent is process 1, or another user's.
type manager struct {
	t     *testing.T
	dir   string
	sock  string
	files []*os.File
	names []string
	creds *syscall.Credential // of the daemons, if they are another user's
	vars  []string

	told   chan [2][]byte        // messages, with what came beside them
	stored map[string][]*os.File // with it by a daemon, by the name
}

// asProcess1 has the shell that it gets to start the daemon become process 1 of a namespace of its own; false where that cannot be.
var asProcess1 = func(*exec.Cmd) bool { return false }

func newManager(t *testing.T) *manager {
	t.Helper()
	dir := vnettest.ShortDir(t)
	m := &manager{t: t, dir: dir, sock: filepath.Join(dir, "s")}
	if os.Geteuid() == 0 && !asProcess1(&exec.Cmd{}) {
		m.asUser()
	}
	return m
}

// asUser has root start daemons for another user. It is called first.
func (m *manager) asUser() {
	m.t.Helper()
	const nobody = 65534
	m.creds = &syscall.Credential{Uid: nobody, Gid: nobody}
	require.NoError(m.t, os.Chmod(binaries, 0o755))
	require.NoError(m.t, os.Chown(m.dir, nobody, nobody))
	before := syscall.Umask(0) // the daemon answers datagrams at the path of their sender, which is root's
	m.t.Cleanup(func() { syscall.Umask(before) })
}

// own gives a file to the user that the daemons run as.
func (m *manager) own(path string) {
	m.t.Helper()
	if m.creds != nil {
		require.NoError(m.t, os.Chown(path, int(m.creds.Uid), int(m.creds.Gid)))
	}
}

// listen makes the socket at path, below the directory.
func (m *manager) listen(name, path string) *net.UnixListener {
	m.t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(m.dir, path), Net: "unix"})
	require.NoError(m.t, err)
	ln.SetUnlinkOnClose(false)
	m.keep(name, path, ln)
	return ln
}

// keep gives a socket to the daemons. The manager's own end stays open for as long as the test runs.
func (m *manager) keep(name, path string, s interface {
	io.Closer
	File() (*os.File, error)
},
) {
	m.t.Helper()
	m.own(filepath.Join(m.dir, path))
	f, err := s.File()
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = errors.Join(f.Close(), s.Close()) })
	m.files, m.names = append(m.files, f), append(m.names, name)
}

// The shell that starts a daemon: its process id is known only then. As process 1 it stays, and passes SIGTERM on.
const (
	execShell = `LISTEN_PID=$$ exec $MACHRUN "$@"`
	initShell = `sh -c 'LISTEN_PID=$$ exec $MACHRUN "$@"' sh "$@" & child=$!
		trap 'kill -TERM $child' TERM
		wait $child; code=$?
		while [ $code -gt 128 ]; do wait $child; code=$?; done
		exit $code`
)

// start starts a daemon with the sockets.
func (m *manager) start(args ...string) *process {
	m.t.Helper()
	args = append(append(backendArgs(m.sock), "--state-dir="+m.dir+"/state"), append(args, m.sock)...)
	cmd := exec.Command("/bin/sh", append([]string{"-c", execShell, "sh", filepath.Join(binaries, "socket_vmnet2")}, args...)...)
	if m.told != nil {
		m.hear(func(string) bool { return false }, 50*time.Millisecond) // the last words of the one before
	}
	files, names := slices.Clone(m.files), slices.Clone(m.names)
	for name, list := range m.stored {
		files, names = append(files, list...), append(names, slices.Repeat([]string{name}, len(list))...)
	}
	cmd.Env = append(append(os.Environ(), m.vars...), "DEBUG=1", "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	cmd.ExtraFiles = files
	if m.creds != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: m.creds}
	} else if os.Geteuid() == 0 && asProcess1(cmd) {
		cmd.Args[2] = initShell
	}
	return runDaemon(m.t, cmd, m.sock)
}

// listens has the daemons tell the manager how they are, and store descriptors with it.
func (m *manager) listens() {
	m.t.Helper()
	path := m.dir + "/notify"
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = c.Close() })
	require.NoError(m.t, os.Chmod(path, 0o777))
	m.vars, m.told, m.stored = []string{"NOTIFY_SOCKET=" + path}, make(chan [2][]byte, 1000), map[string][]*os.File{}
	go func() { // at once, as a manager does: there is room for few of them in the socket
		for {
			b, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
			n, on, _, _, err := c.ReadMsgUnix(b, oob)
			if err != nil {
				return
			}
			m.told <- [2][]byte{b[:n], oob[:on]}
		}
	}()
}

// hear does what the daemon's messages say until one is the last, for so long at most, and returns that, or nothing.
func (m *manager) hear(last func(text string) bool, most time.Duration) string {
	m.t.Helper()
	for end := time.After(most); ; {
		var what [2][]byte
		select {
		case what = <-m.told:
		case <-end:
			return ""
		}
		text, name, _ := strings.Cut(string(what[0]), "\nFDNAME=")
		switch text {
		case "FDSTORE=1":
			m.store(name, what[1])
		case "FDSTOREREMOVE=1":
			delete(m.stored, name)
		}
		if last(text) {
			return text
		}
	}
}

// next waits for the next message that is not about descriptors.
func (m *manager) next() string {
	m.t.Helper()
	return m.hear(func(text string) bool { return !strings.HasPrefix(text, "FDSTORE") }, patience)
}

// store keeps what came with a message.
func (m *manager) store(name string, oob []byte) {
	m.t.Helper()
	all, err := unix.ParseSocketControlMessage(oob)
	require.NoError(m.t, err)
	fds, err := unix.ParseUnixRights(&all[0])
	require.NoError(m.t, err)
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), name)
		m.t.Cleanup(func() { _ = f.Close() })
		m.stored[name] = append(m.stored[name], f)
	}
}

// TestGivenSockets: sockets that a service manager has made are served and left as they are, over an upgrade too, and the manager is told.
func TestGivenSockets(t *testing.T) {
	t.Run("root's, all of them", func(t *testing.T) {
		m := newManager(t)
		require.NoError(t, os.MkdirAll(m.sock+".d/dgram", 0o750))
		m.listen("stream", "s")
		m.listen("attach", "s.d/attach")
		m.listen("adopt", "s.d/adopt")
		m.listen("control", "s.d/control")
		shared, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.sock + ".d/dgram/sock", Net: "unixgram"})
		require.NoError(t, err)
		m.keep("dgram", "s.d/dgram/sock", shared)
		m.own(m.sock + ".d/dgram")
		m.own(m.sock + ".d")
		m.listens()
		for range 2 {
			testGiven(m, func(p *process) {
				for _, way := range p.ways() {
					_, err := over(t, way).Configure()
					require.NoError(t, err, way.Name)
				}
			})
			for _, name := range []string{"s.d/attach", "s.d/adopt", "s.d/control", "s.d/dgram/sock"} {
				assert.FileExists(t, filepath.Join(m.dir, name))
			}
		}
	})
	t.Run("a user's, SOCKET alone", func(t *testing.T) {
		m := newManager(t)
		if os.Geteuid() == 0 {
			m.asUser()
		}
		m.listen("socket_vmnet2.socket", "s")
		require.NoError(t, os.Chmod(m.sock, 0o604))
		m.listens()
		testGiven(m, func(*process) {
			info, err := os.Stat(m.sock + ".d")
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "the socket's group may not connect, so it may not here")
		})
		assert.NoDirExists(t, m.sock+".d")
	})
}

// testGiven is the life of a daemon; check looks at it while it serves.
func testGiven(m *manager, check func(p *process)) {
	t := m.t
	t.Helper()
	before, err := os.Lstat(m.sock)
	require.NoError(t, err)
	hears := func(want string) { require.Regexp(t, "^"+want, m.next()) }
	p := m.start(append([]string{"--pidfile=" + m.dir + "/pid", "--socket-mode=0700"}, datagramArgs...)...)
	hears("READY=1\nSTATUS=serving " + m.sock + ": [a-z]+, shared, ")
	assert.FileExists(t, m.dir+"/pid", "it is there when the manager is told")
	tk := p.talkers(t)
	tk.check("served")
	p.says(t, "have no effect: the service manager has made the socket")
	check(p)
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	hears("RELOADING=1\nMONOTONIC_USEC=")
	hears("READY=1\n")
	tk.check("the same connections")
	p.talkers(t).check("and new ones")
	p.stop(t)
	hears("STOPPING=1\nSTATUS=stopping$")
	after, err := os.Lstat(m.sock)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	assert.Equal(t, before.Mode(), after.Mode())
	assert.FileExists(t, m.sock+".lock")
	assert.NoFileExists(t, m.dir+"/pid")
	assert.Empty(t, p.stdout.String())
	p.says(t, "is left to the next process")
	p.matches(t, `client gone .*peer_uid=\d+ peer_gid=\d+`)
}

// TestBacklogIsLeftToTheNext: a client that connects while the daemon stops is served by the next one, on that very connection.
func TestBacklogIsLeftToTheNext(t *testing.T) {
	m := newManager(t)
	m.listen("stream", "s")
	first := m.start()
	tk := first.talkers(t)
	quit := make(chan struct{})
	var babble sync.WaitGroup
	babble.Go(func() { // a client that talks is drained for a second
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = tk.a.Write(wire(0, tk.a.mac, "busy"))
			}
		}
	})
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	first.says(t, "Received signal")
	first.says(t, "is left to the next process")
	late := first.dial(t, 0xc1)
	late.send(0, "sent while no daemon listened")
	<-first.ended
	close(quit)
	babble.Wait()
	assert.Zero(t, first.ProcessState.ExitCode())

	second := m.start()
	second.says(t, "peer_uid")
	pair := talking{second.dial(t, 0xd1), late}
	pair.meet()
	pair.check("the same connection")
}

// TestStoredSockets: what a daemon that is killed has stored with its manager lets its clients on datagrams go on, and those on streams
// end in order.
func TestStoredSockets(t *testing.T) {
	m := newManager(t)
	m.listens()
	p := m.start(datagramArgs...)
	require.Contains(t, m.next(), "READY=1")
	guests := map[string]*fakeguest.Guest{}
	for _, way := range []vnettest.Transport{p.stream(), p.connected(), p.attach(proto.Datagram)} {
		guests[way.Name] = over(t, way)
		_, err := guests[way.Name].Configure()
		require.NoError(t, err, way.Name)
	}
	want := 3
	if runtime.GOOS == "linux" {
		want++ // a second shared socket, as the first one is a client's
	}
	m.hear(func(string) bool { return len(m.stored) == want }, patience)
	_, err := over(t, p.connected()).Configure() // gets the socket at the path for itself, and another one takes its place
	require.NoError(t, err)
	require.NoError(t, p.Process.Kill()) // before that one is stored
	<-p.ended
	p = m.start(datagramArgs...)
	require.Contains(t, m.next(), "READY=1")
	_, err = over(t, p.connected()).Configure()
	require.NoError(t, err, "the path leads to the new daemon")
	stream, path, attached := guests[p.stream().Name], guests[p.connected().Name], guests[p.attach(proto.Datagram).Name]
	hears(t, path, "it need not speak first", func() error {
		return attached.Send(testFrame(path.MAC(), attached.MAC(), "it need not speak first"))
	})
	_, err = path.Configure()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return stream.Err() != nil }, patience, time.Millisecond)
	require.ErrorIs(t, stream.Err(), io.EOF, "not a reset")
	p.stop(t)
	m.hear(func(string) bool { return len(m.stored) == 0 }, patience)
	require.Empty(t, m.stored)
}
