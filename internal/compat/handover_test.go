// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/json"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// TestSaveLeavesAll: what was saved works on if the exec fails.
func TestSaveLeavesAll(t *testing.T) {
	dir := t.TempDir()
	p, err := AcquirePidfile(dir+"/p", discard())
	require.NoError(t, err)
	require.NoError(t, p.Publish(os.Getpid()))
	l, err := LockSocket(t.Context(), dir+"/s", false, discard())
	require.NoError(t, err)
	ln, err := l.Bind(Owner{UID: -1, GID: -1, Mode: 0o770})
	require.NoError(t, err)
	defer ln.Close()
	var o handover.Out
	sl, sp := l.Save(&o), p.Save(&o)
	require.Error(t, handover.Exec(&o, nil, "/nowhere", []string{"x"}, nil))
	require.ErrorIs(t, (&SocketLock{at: hostfs.Place{Name: dir + "/s"}}).tryLock(), syscall.EAGAIN)
	_, err = AcquirePidfile(dir+"/p", discard())
	require.EqualError(t, err, openText(dir+"/p", "Resource temporarily unavailable"))
	b, err := json.Marshal([]any{sl, sp})
	require.NoError(t, err)
	assert.Regexp(t, `^\[\{"path":".*/s","fd":\d+,"bound":true,"dev":\d+,"ino":\d+\},\{"path":".*/p","fd":\d+,"pid":\d+\}\]$`, string(b))
	c, err := net.DialTimeout("unix", dir+"/s", 10*time.Second)
	require.NoError(t, err)
	_ = c.Close()
	l.RemoveIfOurs()
	p.Release()
	l.Unlock()
	assert.Equal(t, []string{"s.lock"}, entries(t, dir))
}
