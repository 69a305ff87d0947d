// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// TestMaxClientsCountsAllKinds: --max-clients is for all transports together, and one that leaves makes room.
func TestMaxClientsCountsAllKinds(t *testing.T) {
	p := startOpen(t, "--max-clients=5")
	p.describes(t, running(0)) // those that asked whether it is ready have gone
	s := over(t, p.stream())
	connected, unconnected := over(t, p.connected()), over(t, p.unconnected())
	attached, adopted := over(t, p.attach(proto.Datagram)), over(t, p.adopt(proto.Datagram, true))
	introduce(t, s, connected, unconnected, attached, adopted)

	_, err := proto.Attach(t.Context(), p.sock, proto.Request{})
	refused := &proto.Error{}
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, proto.Full, refused.Code)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = p.adopt(proto.Datagram, true).Dial(ctx)
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, proto.Full, refused.Code)
	extra := over(t, p.stream())
	select {
	case <-extra.Done():
	case <-time.After(patience):
		assert.Fail(t, "a stream client above the limit is served")
	}
	late := over(t, p.unconnected())
	l := s.Listen(func(f []byte) bool { return bytes.Equal(f[6:12], late.MAC()) })
	for range 20 {
		require.NoError(t, late.Send(testFrame(fakeguest.Broadcast, late.MAC(), "one too many")))
		time.Sleep(time.Millisecond)
	}
	introduce(t, s, connected)
	assert.Empty(t, texts(l))
	p.says(t, "--max-clients")
	assert.Less(t, strings.Count(p.stderr.String(), "--max-clients"), 10, "%s", p.stderr)

	attached.Close()
	hears(t, s, "room at last", func() error { return late.Send(testFrame(fakeguest.Broadcast, late.MAC(), "room at last")) })
	introduce(t, s, connected, unconnected, adopted, late)
}
