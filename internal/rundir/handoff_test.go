// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"encoding/json"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
)

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
