// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// maxAddressLogs is how many times the addresses of a client are logged at INFO when they change.
const maxAddressLogs = 4

// logBegin and logEnd write socket_vmnet's lines for a client of its socket, and a line with what is known for any other.
func (c *Session) logBegin() {
	if c.attached {
		return
	}
	if c.client.Transport != status.Stream {
		c.log.Info("serving a client")
		return
	}
	c.log.Info("accepted a connection", "fd", c.link.Fd())
	if peer := c.client.Peer.Args(); peer != nil { // socket_vmnet's line has no room for it
		c.log.Info("client connected", peer...)
	}
}

func (c *Session) logEnd(err error) {
	if c.client.Transport != status.Stream {
		return // the summary follows
	}
	fd := c.link.Fd()
	if left(err) {
		c.log.Info("connection closed by peer", "fd", fd)
	}
	c.log.Info("closing a connection", "fd", fd)
}

// summarise logs how the session went.
func (c *Session) summarise(err error, st link.Stats) {
	level := slog.LevelInfo
	if left(err) && st.ToNetFrames+st.DropRunt == 0 && c.client.Transport == status.Stream {
		level = slog.LevelDebug // a probe
	} else if !left(err) && !errors.Is(err, link.ErrShutdown) && c.reason.Load() == nil {
		level = slog.LevelWarn
	}
	args := []any{"reason", err, "duration", time.Since(c.began).Round(time.Millisecond)}
	if c.client.Transport == status.Stream { // else it is in each line, where it is known
		args = append(args, c.client.Peer.Args()...)
	}
	known := c.watch.Snapshot()
	if known.MAC != nil {
		args = append(args, "mac", known.MAC.String())
	}
	if known.IP.IsValid() {
		args = append(args, "ip", known.IP.String())
	}
	args = append(args, "frames_to_net", st.ToNetFrames, "bytes_to_net", st.ToNetBytes,
		"frames_to_client", st.ToClientFrames, "bytes_to_client", st.ToClientBytes)
	if st.Queued > 0 { // it left without reading them; they are among frames_to_client
		args = append(args, "bytes_unsent", st.Queued)
	}
	args = append(args, c.dropArgs(st)...)
	c.log.Log(context.Background(), level, "client gone", args...)
}

// dropArgs are the drops by reason, those that happened, in a fixed order.
func (c *Session) dropArgs(st link.Stats) (args []any) {
	_, spoofed := c.guardDrops()
	c.telling.Lock()
	defer c.telling.Unlock()
	add := func(reason network.DropReason, n uint64) {
		if n > 0 {
			args = append(args, string(reason), n)
		}
	}
	add("drop_queue_full", st.DropQueueFull)
	add("drop_runt", st.DropRunt)
	add("drop_long", st.DropLong)
	add("drop_foreign", st.DropForeign)
	add("drop_starting", c.dropHeld.Load()+st.DropStarting)
	for _, r := range []network.DropReason{
		network.DropStorm, network.DropOversize, network.DropHairpin, network.DropIsolated, network.DropRefused, network.DropExhausted,
		network.DropDown,
	} {
		add(r, c.ports.Drops[r])
	}
	add("lost_oversize", c.ports.Lost[network.DropOversize]+st.DropOversize)
	return append(args, spoofed...)
}

// logAddresses logs what the watch has learned. A client may change its addresses with every frame, so it stops early.
func (c *Session) logAddresses() {
	if c.addrLogs >= maxAddressLogs {
		return
	}
	s := c.watch.Snapshot()
	if !s.IP.IsValid() { // the MAC address alone is not news: it comes with the IP address or in the summary
		return
	}
	c.addrLogs++
	args := []any{"mac", s.MAC.String(), "ip", s.IP.String()}
	if s.Hostname != "" {
		args = append(args, "hostname", s.Hostname)
	}
	c.log.Info("client address", args...)
}
