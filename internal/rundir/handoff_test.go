// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
)

func init() { children["handoff"] = handoffChild }

// images of handoffChild hand this over.
type images struct {
	Dir            Saved
	Attach, Shared int
}

// handoffChild has the directory for the socket args[0] (args[1] is --runtime-dir), becomes another image when it reads a byte,
// makes one more socket, and removes all when it reads a line.
func handoffChild(args []string) error {
	in, err := handoff.Inherited()
	if err != nil {
		return err
	}
	if in != nil {
		return nextImage(in)
	}
	d, err := Open(Options{Socket: args[0], Dir: args[1], Owner: owner(), Log: discard()})
	if err != nil {
		return err
	}
	attach, err := d.Listen("attach")
	if err != nil {
		return err
	}
	shared, err := d.ListenDatagram()
	if err != nil {
		return err
	}
	fmt.Println("old")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	var o handoff.Out
	var im images
	if im.Dir, err = d.Save(&o); err != nil {
		return err
	}
	if im.Attach, err = o.Conn(attach); err != nil {
		return err
	}
	if im.Shared, err = o.Conn(shared); err != nil {
		return err
	}
	if err := o.Put("images", im); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return handoff.Exec(&o, self, os.Args, os.Environ())
}

func nextImage(in *handoff.In) error {
	var im images
	if err := in.Get("images", &im); err != nil {
		return err
	}
	d, err := Restore(in, im.Dir, discard())
	if err != nil {
		return err
	}
	if _, err := Restore(in, im.Dir, discard()); err == nil {
		return fmt.Errorf("the same directory twice")
	}
	attach, err := in.UnixListener(im.Attach)
	if err != nil {
		return err
	}
	shared, err := in.UnixConn(im.Shared)
	if err != nil {
		return err
	}
	in.CloseRest()
	control, err := d.Listen("control")
	if err != nil {
		return err
	}
	fmt.Println("new", strings.Join(d.reached(), " "))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	d.Remove()
	_ = attach.Close()
	_ = shared.Close()
	return control.Close()
}

// TestHandoff has a process that owns the directory become another program, with all that is in it.
func TestHandoff(t *testing.T) {
	for _, given := range []bool{false, true} {
		t.Run(fmt.Sprintf("given %v", given), func(t *testing.T) {
			dir := tempDir(t)
			where, arg := dir+"/s.d", ""
			if given {
				where, arg = dir+"/r", dir+"/r"
				require.NoError(t, os.Mkdir(arg, 0o700))
			}
			before := tree(t, dir)
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), self, dir+"/s", arg)
			cmd.Env = append(os.Environ(), "RUNDIR_TEST_CHILD=handoff", "GORACE=atexit_sleep_ms=0")
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			require.Equal(t, "old", lines.Text())
			full := tree(t, dir)
			_, err = in.Write([]byte("x"))
			require.NoError(t, err)
			for range 50 { // throughout
				_, err := Open(Options{Socket: dir + "/s", Dir: arg, Owner: owner(), Log: discard()})
				require.ErrorContains(t, err, "another daemon uses this directory")
				c, err := net.Dial("unix", where+"/attach")
				require.NoError(t, err)
				require.NoError(t, c.Close())
			}
			require.True(t, lines.Scan())
			require.Equal(t, "new "+where+"/attach "+where+"/dgram/sock "+where+"/control", lines.Text())
			assert.Subset(t, tree(t, dir), full)
			require.NoError(t, os.Remove(where+"/attach"))
			require.NoError(t, os.WriteFile(where+"/attach", nil, 0o600)) // another one's
			_, err = in.Write([]byte("\n"))
			require.NoError(t, err)
			require.False(t, lines.Scan(), lines.Text())
			require.NoError(t, cmd.Wait())
			require.NoError(t, os.Remove(where+"/attach"), "it is left alone")
			if !given {
				require.NoError(t, os.Remove(where), "and the directory has nothing else")
			}
			assert.Equal(t, before, tree(t, dir))
		})
	}
}

// TestRestoreRefuses a directory that is none, and gives back what it has taken.
func TestRestoreRefuses(t *testing.T) {
	d := open(t, tempDir(t)+"/s")
	var o handoff.Out
	s, err := d.Save(&o)
	require.NoError(t, err)
	b, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Regexp(t, `"owner":\{"UID":-1,"GID":\d+,"Mode":504,.*"bound":null\}$`, string(b))
	var back Saved
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, s, back)
	for _, fd := range []int{s.Parent, s.Dir, s.Dgram, s.Lock} {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
	}
	_, err = Restore(&handoff.In{}, s, discard())
	require.ErrorContains(t, err, "take over the runtime directory "+s.Path+": take descriptor")
	d.Remove()
	_, err = d.Save(&o)
	require.ErrorIs(t, err, net.ErrClosed)
}
