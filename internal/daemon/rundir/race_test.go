// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// clientChild does what a member of the group does, or what another user tries.
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
	vnettest.NeedRoot(t)
	dir := tempDir(t)
	o := owner()
	o.GID = otherGroup
	d, err := Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
	require.NoError(t, err)
	defer d.Remove()
	ln, err := d.Listen("attach", false)
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

// TestMoved is a move between two steps: what is made is made in the directory that was checked, or not at all.
func TestMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		swap func(name, victim string) error
	}{
		{"link", func(name, victim string) error { return os.Symlink(victim, name) }},
		{"another directory", func(name, _ string) error { return os.MkdirAll(name+"/dgram", 0o777) }},
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
			ln, err := d.Listen("attach", false)
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
		n, err := hostfs.Place{Name: dir + "/" + name}.Node()
		if err != nil {
			return err
		}
		if n.UID != otherUser || n.GID != otherGroup {
			return fmt.Errorf("%s belongs to %d:%d", name, n.UID, n.GID)
		}
	}
	return nil
}

// TestUnprivileged: the default group cannot be set, so it is the daemon's own; one that was given is an error.
func TestUnprivileged(t *testing.T) {
	vnettest.NeedRoot(t)
	for _, c := range []struct {
		name, must string
		uid        int
		mode       os.FileMode
		want       string
	}{
		{"own parent", "", otherUser, 0o700, ""},
		{"a parent of all users", "", 0, os.ModeSticky | 0o777, ""},
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

// connectOnce makes a socket and connects to it by its path.
func connectOnce(d *Dir) error {
	ln, err := d.Listen("attach", false)
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
