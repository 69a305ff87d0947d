// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// canSendNow: a send does not wait even where the descriptor would.
	canSendNow = true
	// longestPath is what package unix takes; one byte more is in TestLongestName.
	longestPath = 107
)

// otherNames are names that only Linux has, written as package unix does.
var otherNames = []string{"@abstract"}

// TestOddNames are a path that fills sun_path, for which Linux returns a length above the size of the structure since no
// zero is at the end, and an abstract name with zeros in it.
func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	here := dir + "/s"
	shared := bound(t, here)
	for title, name := range map[string]string{
		"longest path":          dir + "/" + strings.Repeat("y", maxPath-len(dir)-1),
		"abstract with zeros":   "\x00mmsg\x00test\x00",
		"longest abstract name": "\x00" + strings.Repeat("z", maxPath-1),
	} {
		t.Run(title, func(t *testing.T) {
			client := bound(t, "")
			var a sockaddr
			require.NoError(t, a.set([]byte(name)))
			_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(client), uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
			require.Zero(t, errno)
			if name[0] != 0 {
				defer os.Remove(name)
			}
			batch, want := batchOf(60, 61)
			_, err := send(client, []byte(here), batch)
			require.NoError(t, err)
			r := ways["the system's best"].receiver(t, true)
			n, err := r.Receive(shared)
			require.NoError(t, err)
			for i := range n {
				assert.Equal(t, name, string(r.Name(i)))
			}
			_, err = send(shared, r.Name(0), batch)
			require.NoError(t, err)
			equalFrames(t, want, ways["plain"].readAll(t, client))
		})
	}
}
