// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNames: the system tells a client the true path of what it is connected to, unless others could change where
// that leads, and Paths has that name.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) string // returns SOCKET
		want string                  // of SOCKET.d; empty: one in /proc
	}{
		{"plain", func(dir string) string { return dir + "/s" }, "%s/s.d"},
		{"link on the way", func(dir string) string {
			return firstOf(dir+"/l/s", os.Mkdir(dir+"/a", 0o755), os.Symlink("a", dir+"/l"))
		}, "%s/a/s.d"},
		{"sticky parent", func(dir string) string { return firstOf(dir+"/s", os.Chmod(dir, os.ModeSticky|0o777)) }, "%s/s.d"},
		{"parent for all", func(dir string) string { return firstOf(dir+"/s", os.Chmod(dir, 0o777)) }, ""},
		{"no room for the true path", func(dir string) string {
			long := dir + "/" + strings.Repeat("x", 100)
			return firstOf(dir+"/l/s", os.Mkdir(long, 0o755), os.Symlink(long, dir+"/l"))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			socket := c.make(dir)
			d := open(t, socket)
			ln, err := d.Listen("attach", false)
			require.NoError(t, err)
			defer func() { _ = ln.Close() }()
			gram, err := d.ListenDatagram()
			require.NoError(t, err)
			defer func() { _ = gram.Close() }()
			useStream(t, ln, socket+".d/attach")
			for name, network := range map[string]string{"attach": "unix", "dgram/sock": "unixgram"} {
				cl, err := net.Dial(network, socket+".d/"+name)
				require.NoError(t, err)
				told := cl.RemoteAddr().String()
				assert.Contains(t, d.Paths(), told)
				assert.Contains(t, d.Paths(), socket+".d/"+name)
				if c.want == "" {
					assert.Regexp(t, "^/proc/self/fd/[0-9]+/(attach|dgram.new)$", told)
				} else {
					assert.Equal(t, fmt.Sprintf(c.want, dir)+"/"+strings.Replace(name, "dgram/sock", newName, 1), told)
				}
				require.NoError(t, cl.Close())
			}
		})
	}
}

// firstOf is s; an error in making it shows where it is used.
func firstOf(s string, errs ...error) string {
	if err := chain(errs...); err != nil {
		return "/nowhere/" + err.Error()
	}
	return s
}

// TestSenders: the first datagram already tells who sent it.
func TestSenders(t *testing.T) {
	dir := tempDir(t)
	c, err := open(t, dir+"/s").ListenDatagram()
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	s, err := net.Dial("unixgram", dir+"/s.d/dgram/sock")
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = s.Write([]byte("x"))
	require.NoError(t, err)
	oob := make([]byte, 64)
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 8), oob)
	require.NoError(t, err)
	m, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(t, err)
	require.Len(t, m, 1)
	cred, err := unix.ParseUnixCredentials(&m[0])
	require.NoError(t, err)
	assert.EqualValues(t, os.Geteuid(), cred.Uid)
	assert.EqualValues(t, os.Getpid(), cred.Pid)
}
