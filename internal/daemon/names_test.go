// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUserNames(t *testing.T) {
	n := userNames{patience: patience}
	assert.Equal(t, "root", n.name(0))
	assert.Empty(t, n.name(4_000_000_000), "nobody has this number")
}

// TestUserNamesAreKept: a directory service is not asked twice, and what it says is made fit to be shown.
func TestUserNamesAreKept(t *testing.T) {
	var asked atomic.Int32
	n := userNames{patience: patience, lookUp: func(uid uint32) string {
		asked.Add(1)
		return fmt.Sprintf("user\x1b[2J%d%s", uid, strings.Repeat("é", 100))
	}}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			got := n.name(501)
			assert.True(t, strings.HasPrefix(got, "user?[2J501é"), got)
			assert.LessOrEqual(t, len(got), maxUserName)
		})
	}
	all.Wait()
	assert.Equal(t, int32(1), asked.Load())
	for uid := range uint32(3 * maxUserNames) {
		_ = n.name(uid)
	}
	assert.LessOrEqual(t, len(n.known), maxUserNames)
}

// TestSlowUserNames: a directory service that hangs delays a description once, and no other one.
func TestSlowUserNames(t *testing.T) {
	hold := make(chan struct{})
	n := userNames{lookUp: func(uid uint32) string {
		<-hold
		return fmt.Sprint("user", uid)
	}}
	began := time.Now()
	for uid := range uint32(1000) { // 50 s, if each waited
		assert.Empty(t, n.name(uid))
	}
	assert.Less(t, time.Since(began), 20*time.Second)
	close(hold)
	require.Eventually(t, func() bool { return n.name(7) == "user7" }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return n.name(0) == "user0" }, patience, time.Millisecond)
}

func TestProcessNames(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	var n processNames
	began := time.Now()
	require.Eventually(t, func() bool { // until then it is this program still
		n = processNames{}
		return n.name(1, c.Process.Pid, began) == "sleep"
	}, patience, time.Millisecond)
	n.since = time.Now().Add(time.Hour) // however late the next look is
	assert.Empty(t, n.name(2, c.Process.Pid, began.Add(-time.Hour)), "the client is older than the process that has its number now")
	assert.Equal(t, "sleep", n.name(1, c.Process.Pid, began.Add(-time.Hour)), "what was told is good for a while")
	assert.Empty(t, n.name(1, 0, began))
	assert.Empty(t, n.name(1, -1, began))
	assert.NotEmpty(t, n.name(3, os.Getpid(), began))
	n.since = time.Now().Add(-processNameAge)
	assert.Empty(t, n.name(1, c.Process.Pid, began.Add(-time.Hour)), "and not for longer")
	assert.Len(t, n.known, 1)
}
