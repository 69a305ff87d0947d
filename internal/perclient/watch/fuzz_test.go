// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzWatch passes arbitrary frames in both directions. Nothing may panic or write to the frame, a frame that is not
// Interesting may only give a MAC, and a hostname is always clean.
func FuzzWatch(f *testing.F) {
	f.Add(goldenRequest)
	f.Add(goldenARP)
	f.Add(dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}.frame())
	f.Add(dhcp{kind: 7, ciaddr: ip17.As4(), ipOptions: 10, padding: 9}.frame())
	f.Add(dhcp{kind: 1, options: join([]byte{0, 0}, option(12, "a\x1b\x00b"), option(50, "\x0a\x00\x00"))}.frame())
	f.Add(dhcp{kind: 2, reply: true, yiaddr: ip17.As4()}.frame())
	f.Add(dhcp{kind: 6, reply: true}.frame())
	f.Add(arpFrame(2, guestMAC, ip17.As4(), ip17.As4()))
	f.Add(goldenRequest[:43])
	f.Fuzz(func(t *testing.T, in []byte) {
		got := slices.Clip(bytes.Clone(in))
		now := func() time.Time { return start }
		w, other := Watch{now: now}, Watch{now: now}
		w.FromClient(goldenARP)
		before := w.Snapshot()
		changed := w.FromClient(got)
		changed = w.ToClient(got) || changed
		require.True(t, bytes.Equal(in, got), "the frame was written to")
		after := w.Snapshot()
		if !Interesting(got) {
			require.False(t, changed)
		}
		require.LessOrEqual(t, total(before.Counts)+total(after.Counts), uint64(2), "one frame, in both directions")
		require.Equal(t, w.Waiting(), !after.Waiting.IsZero())
		require.Equal(t, after.Waiting.IsZero(), after.Asked.IsZero())
		require.False(t, after.Asked.Before(after.Waiting))
		b, err := json.Marshal(after)
		require.NoError(t, err)
		var v Snapshot
		require.NoError(t, json.Unmarshal(b, &v))
		other.Restore(v)
		require.Equal(t, after, other.Snapshot(), "in the next process")
		if !changed {
			require.Equal(t, before.IP, after.IP)
			require.Equal(t, before.Hostname, after.Hostname)
		}
		require.LessOrEqual(t, len(after.Hostname), 63)
		for _, c := range []byte(after.Hostname) {
			require.Contains(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._", string(c))
		}
	})
}

// total is how many messages were counted.
func total(c Counts) uint64 { return c.Discovers + c.Requests + c.Offers + c.Acks + c.Naks }
