// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRuntimeOptions(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	mine, err := strconv.ParseUint(me.Uid, 10, 32)
	require.NoError(t, err)
	longest := "/" + strings.Repeat("x", MaxSocketPath-len(LongestRuntimePath)-1)
	for _, c := range []struct {
		name string
		argv []string
		dir  string
		uids []uint32
	}{
		{"neither", nil, "", nil},
		{"directory", []string{"--runtime-dir=/var/run/x"}, "/var/run/x", nil},
		{"no directory", []string{"--runtime-dir", "none"}, "none", nil},
		{"a directory of that name", []string{"--runtime-dir=./none"}, "./none", nil},
		{"last one wins", []string{"--runtime-dir=none", "--runtime-dir=/r"}, "/r", nil},
		{"longest directory", []string{"--runtime-dir=" + longest}, longest, nil},
		{"root", []string{"--allow-uid=0"}, "", []uint32{0}},
		{"several", []string{"--allow-uid=501", "--allow-uid", "0", "--allow-uid=501"}, "", []uint32{501, 0}},
		{"largest", []string{"--allow-uid=4294967294"}, "", []uint32{4294967294}},
		{"by name", []string{"--allow-uid=" + me.Username}, "", []uint32{uint32(mine)}},
		{"by name and number", []string{"--allow-uid=" + me.Username, "--allow-uid=" + me.Uid}, "", []uint32{uint32(mine)}},
		{"shortened", []string{"--runtime=/r", "--allow=7"}, "/r", []uint32{7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parse(t, New, append(append([]string{"socket_vmnet2", "--vmnet-mode=host"}, c.argv...), "/s"))
			require.NotNil(t, r.cfg, r.stderr)
			assert.Equal(t, c.dir, r.cfg.RuntimeDir)
			assert.Equal(t, c.uids, r.cfg.AllowUIDs)
			assert.Empty(t, r.stdout+r.stderr)
		})
	}
	for _, c := range []struct{ arg, want string }{
		{"--runtime-dir=", `--runtime-dir is empty: give a directory, or "none"`},
		{"--runtime-dir=" + longest + "y", fmt.Sprintf("--runtime-dir=%s is too long: the path of dgram/sock below it has %d bytes, "+
			"that of a socket %d at most", longest+"y", MaxSocketPath+1, MaxSocketPath)},
		{"--allow-uid=", "--allow-uid= is no user's number from 0 to 4294967294"},
		{"--allow-uid=4294967295", "--allow-uid=4294967295 is no user's number from 0 to 4294967294"},
		{"--allow-uid=99999999999999999999", "--allow-uid=99999999999999999999 is no user's number from 0 to 4294967294"},
		{"--allow-uid=-1", "--allow-uid=-1 is no number and no user's name"},
		{"--allow-uid=0,1", "--allow-uid=0,1 is no number and no user's name"},
		{"--allow-uid=no-such-user", "--allow-uid=no-such-user is no number and no user's name"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			r := parse(t, New, []string{"socket_vmnet2", c.arg, "-h"})
			assert.Nil(t, r.cfg)
			assert.Equal(t, 1, r.code, "before the --help behind it")
			assert.Equal(t, "ERROR| "+c.want+"\n", r.stderr)
			assert.True(t, strings.HasPrefix(r.stdout, "Usage: socket_vmnet2 "))
		})
	}
}
