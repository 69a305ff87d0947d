// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// clientChild does what a member of the group does, or what somebody else tries.
func clientChild(args []string) error {
	dir, member := args[0], args[1] == "member"
	c, err := net.Dial("unix", dir+"/attach")
	if !member {
		if !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("connect to attach: %w", err)
		}
		if _, err := os.ReadDir(dir); !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("read the directory: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_ = c.Close()
	s, err := net.DialUnix("unixgram", &net.UnixAddr{Name: dir + "/dgram/mine", Net: "unixgram"}, &net.UnixAddr{Name: dir + "/dgram/sock", Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Write([]byte("hello")); err != nil {
		return err
	}
	for name, err := range map[string]error{
		"remove sock":     os.Remove(dir + "/dgram/sock"),
		"rename sock":     os.Rename(dir+"/dgram/sock", dir+"/dgram/gone"),
		"replace sock":    os.Rename(dir+"/dgram/mine", dir+"/dgram/sock"),
		"remove attach":   os.Remove(dir + "/attach"),
		"make a file":     os.WriteFile(dir+"/x", nil, 0o600),
		"rename dgram":    os.Rename(dir+"/dgram", dir+"/x"),
		"open the lock":   opened(dir + "/lock"),
		"change the mode": os.Chmod(dir+"/dgram/sock", 0o777),
		"remove another":  os.Remove(dir + "/dgram/another"),
	} {
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func opened(path string) error {
	f, err := os.Open(path)
	if err == nil {
		_ = f.Close()
	}
	return err
}

// TestClients: what members of the group can do and others cannot.
func TestClients(t *testing.T) {
	needRoot(t)
	dir := tempDir(t)
	o := owner()
	o.GID = otherGroup
	d, err := Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
	require.NoError(t, err)
	defer d.Remove()
	ln, err := d.Listen("attach")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	c, err := d.ListenDatagram()
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, chain(socketAt(dir+"/s.d/dgram/another"), os.Chown(dir+"/s.d/dgram/another", 1234, otherGroup)))
	for name, gid := range map[string]uint32{"member": otherGroup, "stranger": 1234} {
		out, err := childAs(t, otherUser, gid, "client", dir+"/s.d", name).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
	b := make([]byte, 8)
	n, from, err := c.ReadFromUnix(b)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(b[:n]))
	assert.Equal(t, dir+"/s.d/dgram/mine", from.Name)
}

// squatterChild makes dgram/sock again and again, in each way there is, until it is killed.
func squatterChild(args []string) error {
	path := args[0]
	fmt.Println("begun")
	for {
		s, err := newSocket(unix.SOCK_DGRAM)
		if err != nil {
			return err
		}
		_ = unix.Bind(s, &unix.SockaddrUnix{Name: path})
		_ = unix.Close(s)
	}
}

// TestSquatter: a member of the group cannot keep dgram/sock from us, however quick he is.
func TestSquatter(t *testing.T) {
	needRoot(t)
	dir := tempDir(t)
	o := owner()
	o.GID = otherGroup
	opts := Options{Socket: dir + "/s", Owner: o, Log: discard()}
	d, err := Open(opts)
	require.NoError(t, err)
	require.NoError(t, socketAt(dir+"/s.d/dgram/client")) // so that the directory stays
	d.Remove()
	startMoves(t, childAs(t, otherUser, otherGroup, "squatter", dir+"/s.d/dgram/sock"))
	// He proves something only where he was first, which takes a processor for him.
	stolen, tries := 0, 0
	for end := time.Now().Add(time.Minute); tries < 200 || stolen < 5 && time.Now().Before(end); tries++ {
		if _, err := os.Lstat(dir + "/s.d/dgram/sock"); err == nil {
			stolen++
		}
		d, err := Open(opts)
		require.NoError(t, err)
		c, err := d.ListenDatagram()
		require.NoError(t, err)
		require.Contains(t, tree(t, dir), fmt.Sprintf("s.d/dgram/sock socket 0770 0:%d", otherGroup))
		require.Contains(t, tree(t, dir), fmt.Sprintf("s.d/dgram dir 1770 0:%d", otherGroup))
		d.Remove()
		require.NoError(t, c.Close())
	}
	t.Logf("the name was taken %d of %d times", stolen, tries)
	assert.GreaterOrEqual(t, stolen, 5)
}

// moverChild may write in SOCKET's parent and moves SOCKET.d about until it is killed: away and back, with a link or a
// directory of its own in its place. It writes a byte after each move.
func moverChild(args []string) error {
	dir, victim := args[0], args[1]
	name, moved := dir+"/s.d", dir+"/moved"
	for i := 0; ; i++ {
		_ = os.Rename(name, moved)
		if i%2 == 0 {
			_ = os.Symlink(victim, name)
		} else {
			_ = os.Mkdir(name, 0o777)
			_ = os.Symlink(victim, name+"/dgram")
			_ = os.Symlink(victim+"/lock", name+"/lock")
		}
		_ = os.RemoveAll(name)
		_ = os.Rename(moved, name)
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return err
		}
		time.Sleep(time.Duration(i%8) * 20 * time.Microsecond)
	}
}

// TestMover: whatever is done with SOCKET.d meanwhile, nothing happens elsewhere, and Open works or says why it does not.
func TestMover(t *testing.T) {
	needRoot(t)
	dir, victim := tempDir(t), tempDir(t)
	require.NoError(t, os.WriteFile(victim+"/attach", nil, 0o640))
	require.NoError(t, os.WriteFile(victim+"/keep", nil, 0o640))
	require.NoError(t, os.Chmod(victim, 0o711))
	require.NoError(t, os.Chown(dir, 0, otherGroup)) // as Lima's /private/var/run/lima
	require.NoError(t, os.Chmod(dir, 0o775))
	cmd := childAs(t, otherUser, otherGroup, "mover", dir, victim)
	moves := startMoves(t, cmd)

	before := tree(t, victim)
	failed := map[string]int{}
	worked, tries := 0, 0
	o := owner()
	o.GID = otherGroup
	// A mover that gets no processor for a while stands still, with SOCKET.d there or not: the tries of that time all end
	// alike. So it is its moves that count.
	for end := time.Now().Add(time.Minute); tries < 400 || (worked == 0 || moves.Load() < 200) && time.Now().Before(end); tries++ {
		if err := useOnce(Options{Socket: dir + "/s", Owner: o, Log: discard()}); err != nil {
			failed[strings.ReplaceAll(err.Error(), dir, "")]++
			continue
		}
		worked++
	}
	t.Logf("%d of %d worked in %d moves; %v", worked, tries, moves.Load(), failed)
	after := slices.DeleteFunc(tree(t, victim), func(line string) bool { // macOS has no bind that takes a directory
		return runtime.GOOS == "darwin" && strings.HasSuffix(line, " socket 0600 0:0")
	})
	assert.Equal(t, before, after)
	fi, err := os.Stat(victim)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o711), fi.Mode().Perm())
	assert.Positive(t, worked)
	assert.GreaterOrEqual(t, moves.Load(), int64(200), "moves: they are what is to be withstood")
}

// startMoves starts a child until the test's end, and counts the bytes that it writes: a mover's are one for each move.
func startMoves(t *testing.T, cmd *exec.Cmd) *atomic.Int64 {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	moves, done := new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := out.Read(b)
			if err != nil {
				return
			}
			moves.Add(int64(n))
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done // Wait closes the pipe
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return moves.Load() > 0 }, time.Minute, time.Millisecond)
	return moves
}

// TestMoved is a move between two steps: what is made is made in the directory that was checked, or not at all.
func TestMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		swap func(name, victim string) error
	}{
		{"link", func(name, victim string) error { return os.Symlink(victim, name) }},
		{"another directory", func(name, _ string) error { return os.MkdirAll(name+"/dgram", 0o777) }},
		{"nothing", func(string, string) error { return nil }},
		{"link for dgram", func(name, victim string) error {
			return chain(os.Mkdir(name, 0o777), os.Symlink(victim, name+"/dgram"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, victim := tempDir(t), tempDir(t)
			require.NoError(t, socketAt(victim+"/sock"))
			d := open(t, dir+"/s")
			require.NoError(t, os.Rename(dir+"/s.d", dir+"/moved"))
			require.NoError(t, c.swap(dir+"/s.d", victim))
			beforeVictim := tree(t, victim)
			var before []string
			if c.name == "another directory" {
				before = tree(t, dir+"/s.d")
			}
			ln, err := d.Listen("attach")
			if err == nil {
				defer func() { _ = ln.Close() }()
				assert.Contains(t, names(t, dir), "moved/attach")
			}
			uc, uerr := d.ListenDatagram()
			if uerr == nil {
				defer func() { _ = uc.Close() }()
				assert.Contains(t, names(t, dir), "moved/dgram/sock")
			}
			if runtime.GOOS == "linux" {
				require.NoError(t, err)
				require.NoError(t, uerr)
			}
			assert.Contains(t, tree(t, dir), fmt.Sprintf("moved/dgram dir 1770 %d:%d", os.Geteuid(), os.Getegid()))
			d.Remove()
			assert.Equal(t, beforeVictim, tree(t, victim))
			if before != nil {
				assert.Equal(t, before, tree(t, dir+"/s.d"))
			}
			assert.NoFileExists(t, dir+"/moved/attach")
			assert.NoDirExists(t, dir+"/moved/dgram")
		})
	}
}

// useOnce is a daemon's life.
func useOnce(o Options) error {
	d, err := Open(o)
	if err != nil {
		return err
	}
	defer d.Remove()
	ln, err := d.Listen("attach")
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	c, err := d.ListenDatagram()
	if err != nil {
		return err
	}
	return c.Close()
}

// TestRace: many daemons with one directory. One at a time has it, and none finds anything broken.
func TestRace(t *testing.T) {
	dir := filepath.Join(tempDir(t), "r")
	var holders, worked atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				d, err := Open(Options{Dir: dir, Owner: owner(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
				if err != nil {
					// The name may vanish while another daemon removes it, more often than one would try again.
					if !strings.Contains(err.Error(), "another daemon uses this directory") && !errors.Is(err, errGone) {
						t.Error(err)
					}
					continue
				}
				if holders.Add(1) != 1 {
					t.Error("two have it")
				}
				if err := connectOnce(d); err != nil {
					t.Error(err)
				}
				worked.Add(1)
				holders.Add(-1)
				d.Remove()
			}
		})
	}
	wg.Wait()
	t.Logf("%d of 400 had it", worked.Load())
	assert.Positive(t, worked.Load())
	// Who finds it made by another one does not remove it.
	require.NoError(t, os.MkdirAll(dir, 0o700))
	assert.Empty(t, tree(t, dir))
}

// connectOnce makes a socket and connects to it by its path.
func connectOnce(d *Dir) error {
	ln, err := d.Listen("attach")
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("unix", d.Paths()[0])
	if err != nil {
		return err
	}
	return c.Close()
}

// TestWindow watches the directory while it is made: nobody else may ever have more access than in the end.
func TestWindow(t *testing.T) {
	dir := tempDir(t)
	stop, seen := make(chan struct{}), make(chan map[string]bool)
	var looks atomic.Int64
	go func() {
		modes := map[string]bool{}
		for ; ; looks.Add(1) {
			select {
			case <-stop:
				seen <- modes
				return
			default:
			}
			for _, name := range []string{"s.d", "s.d/attach", "s.d/dgram", "s.d/dgram/sock", "s.d/lock"} {
				var st unix.Stat_t
				if unix.Lstat(dir+"/"+name, &st) == nil {
					modes[fmt.Sprintf("%s %04o", name, nodeOf(&st).mode&0o7777)] = true
				}
			}
		}
	}()
	err := error(nil)
	for i, end := 0, time.Now().Add(time.Minute); err == nil && (i < 200 || looks.Load() < 200 && time.Now().Before(end)); i++ {
		err = useOnce(Options{Socket: dir + "/s", Owner: owner(), Log: discard()})
	}
	close(stop)
	modes := <-seen
	require.NoError(t, err)
	assert.GreaterOrEqual(t, looks.Load(), int64(200))
	for m := range modes {
		assert.Contains(t, []string{
			"s.d 0700", "s.d 0750", "s.d/attach 0600", "s.d/attach 0770", "s.d/dgram 0700", "s.d/dgram 1770",
			"s.d/dgram/sock 0600", "s.d/dgram/sock 0770", "s.d/lock 0600",
		}, m)
	}
}

// daemonChild is a daemon without privileges.
func daemonChild(args []string) error {
	dir := args[0]
	o := compat.Owner{UID: -1, GID: 0, Mode: 0o770, MustGroup: args[1] == "must"}
	d, err := Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
	if err != nil {
		return err
	}
	defer d.Remove()
	if err := connectOnce(d); err != nil {
		return err
	}
	c, err := d.ListenDatagram()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for _, name := range []string{"s.d", "s.d/attach", "s.d/dgram", "s.d/dgram/sock"} {
		var st unix.Stat_t
		if err := unix.Lstat(dir+"/"+name, &st); err != nil {
			return err
		}
		if n := nodeOf(&st); n.uid != otherUser || n.gid != otherGroup {
			return fmt.Errorf("%s belongs to %d:%d", name, n.uid, n.gid)
		}
	}
	return nil
}

// TestUnprivileged: the default group cannot be had, so it is the daemon's own; one that was given is an error.
func TestUnprivileged(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name, must string
		uid        int
		mode       os.FileMode
		want       string
	}{
		{"own parent", "", otherUser, 0o700, ""},
		{"everybody's parent", "", 0, os.ModeSticky | 0o777, ""},
		{"given group", "must", otherUser, 0o700, "set group and mode of %s/s.d: operation not permitted\n"},
		{"root's parent", "", 0, 0o755, "make runtime directory %s/s.d: permission denied\n"},
		{"foreign parent", "", 1234, 0o777, "no runtime directory: %s belongs to user 1234, neither to root nor to us (user 65534): --runtime-dir=DIR makes one elsewhere\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			require.NoError(t, chain(os.Chown(dir, c.uid, 0), os.Chmod(dir, c.mode)))
			out, err := childAs(t, otherUser, otherGroup, "daemon", dir, c.must).Output()
			if c.want == "" {
				require.NoError(t, err, string(out))
			} else {
				require.Error(t, err)
				assert.Equal(t, fmt.Sprintf(c.want, dir), string(out))
			}
			assert.Empty(t, tree(t, dir))
		})
	}
	t.Run("root was here first", func(t *testing.T) {
		dir := tempDir(t)
		require.NoError(t, chain(os.Chmod(dir, os.ModeSticky|0o777), os.Mkdir(dir+"/s.d", 0o750)))
		out, err := childAs(t, otherUser, otherGroup, "daemon", dir, "").Output()
		require.Error(t, err)
		assert.Contains(t, string(out), "s.d: permission denied: remove it, or give another one with --runtime-dir")
		assert.Equal(t, []string{"s.d dir 0750 0:0"}, tree(t, dir))
	})
}
