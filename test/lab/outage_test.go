// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParsePings(t *testing.T) {
	answers := func(numbers ...int) string {
		b := strings.Builder{}
		b.WriteString("PING 192.0.2.1 (192.0.2.1): 56 data bytes\n")
		for _, n := range numbers {
			fmt.Fprintf(&b, "64 bytes from 192.0.2.1: seq=%d ttl=64 time=0.1 ms\n", n)
		}
		return b.String()
	}
	tests := []struct {
		name, log string
		want      Pings
	}{
		{"nothing", "", Pings{Last: -1}},
		{"no answer", answers(), Pings{Last: -1}},
		{"one", answers(3), Pings{Answered: 1, Last: 3}},
		{"none lost", answers(0, 1, 2), Pings{Answered: 3, Last: 2, Outage: 100 * time.Millisecond}},
		{"lost", answers(0, 1, 4, 5, 12, 13), Pings{Answered: 6, Last: 13, Outage: 700 * time.Millisecond}},
		{"twice and late", answers(0, 0, 2, 1, 3), Pings{Answered: 3, Last: 3, Outage: 200 * time.Millisecond}},
		{"half a line", answers(0, 1) + "64 bytes from 192.0.2.1: seq=22 tt", Pings{Answered: 2, Last: 1, Outage: 100 * time.Millisecond}},
		{"other lines", answers(0) + "ping: sendto: Network is unreachable\n", Pings{Answered: 1, Last: 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, parsePings(tt.log)) })
	}
}

// TestOtherUser: a guest under another account has a directory of its own and can read the kernel, wherever that was.
func TestOtherUser(t *testing.T) {
	u, err := OtherUser()
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		assert.Nil(t, u)
		return
	}
	require.NotNil(t, u)
	assert.NotZero(t, u.UID)
	assert.NotEmpty(t, u.Group)

	l := emptyLab(t)
	l.opts.Tools.Kernel = l.Path("closed/kernel")
	require.NoError(t, os.Mkdir(l.Path("closed"), 0o700))
	require.NoError(t, os.WriteFile(l.opts.Tools.Kernel, []byte("kernel"), 0o600))
	require.NoError(t, os.Mkdir(l.Path("vm"), 0o700))
	for range 2 {
		kernel, err := l.letIn(u, l.Path("vm"))
		require.NoError(t, err)
		script := fmt.Sprintf("id -u; id -G; cat %s && echo && echo x >%s && ls %s", kernel, l.Path("vm/file"), l.Dir)
		p, err := l.start(command{name: "user", argv: []string{"sh", "-c", script}, user: u})
		require.NoError(t, err)
		<-p.Done()
		assert.Contains(t, p.Output().String(), fmt.Sprintf("%d\n%d\nkernel\n", u.UID, u.GID))
		assert.Contains(t, p.Output().String(), "Permission denied", "names in the lab's directory are no business of others")
		assert.FileExists(t, l.Path("vm/file"))
		require.NoError(t, os.Remove(l.Path("vm/file")))
	}
}
