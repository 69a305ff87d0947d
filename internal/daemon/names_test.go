// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
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
	n := userNames{lookUp: lookUpUser}
	assert.Equal(t, "root", n.name(0, nil))
	assert.Empty(t, n.name(4_000_000_000, nil), "no user has this number")
}

// TestUserNamesAreKept: a directory service is not asked twice, and what it says is made fit to be shown.
func TestUserNamesAreKept(t *testing.T) {
	var asked atomic.Int32
	n := userNames{lookUp: func(uid uint32) string {
		asked.Add(1)
		return fmt.Sprintf("user\x1b[2J%d%s", uid, strings.Repeat("é", 100))
	}}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			got := n.name(501, nil)
			assert.True(t, strings.HasPrefix(got, "user?[2J501é"), got)
			assert.LessOrEqual(t, len(got), maxUserName)
		})
	}
	all.Wait()
	assert.Equal(t, int32(1), asked.Load())
	for uid := range uint32(3 * maxUserNames) {
		_ = n.name(uid, nil)
	}
	assert.LessOrEqual(t, len(n.known), maxUserNames)
}

// TestSlowUserNames: a directory service that hangs delays no description for longer than it may, and names that are known are told.
func TestSlowUserNames(t *testing.T) {
	hold, late := make(chan struct{}), make(chan struct{})
	n := userNames{lookUp: func(uid uint32) string {
		if uid > 0 {
			<-hold
		}
		return fmt.Sprint("user", uid)
	}}
	assert.Equal(t, "user0", n.name(0, nil))
	close(late)
	for uid := range uint32(200) {
		assert.Equal(t, uid == 0, n.name(uid, late) != "")
	}
	close(hold)
	assert.Equal(t, "user7", n.name(7, nil))
}

func TestProcessNames(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	began := time.Now()
	require.Eventually(t, func() bool { // until then it is this program still
		return processName(c.Process.Pid, began) == "sleep"
	}, patience, time.Millisecond)
	assert.Empty(t, processName(c.Process.Pid, began.Add(-time.Hour)), "the client is older than the process that has its number now")
	assert.Empty(t, processName(0, began))
	assert.Empty(t, processName(-1, began))
}
