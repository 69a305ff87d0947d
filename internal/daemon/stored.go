// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// storedName is the name by which a client's descriptors are stored.
func storedName(id uint64) string { return fmt.Sprintf("%s%d", inherit.ClientName, id) }

// store has the service manager keep the sockets of a client for the next process, in case this one is killed. Of a stream it is only
// the socket, for it to be closed in order: where in a frame it is, the next process cannot know.
func (d *daemon) store(v *perclient.Detached) {
	fds := numbers(v.Descriptors())
	if v.Client.Transport == status.Stream || v.Client.Transport == status.PassedStream {
		d.manager.Store(storedName(v.ID), v.Link.Socket.FD)
		return
	}
	b, _ := json.Marshal(v) // of which nothing can fail
	f, err := handover.Memory(b)
	if err != nil {
		d.log.Warn("a client is not stored with the service manager", "client", v.ID, "error", err)
		return
	}
	defer func() { _ = f.Close() }()
	d.manager.Store(storedName(v.ID), append(fds, int(f.Fd()))...)
}

// takeStored is what another process of this daemon, which was killed, has stored: the clients on datagrams, which go on. Those on streams
// are drained and closed. A client that goes on is stored again, by a name of this process.
func (d *daemon) takeStored() (clients []perclient.Detached) {
	var ending sync.WaitGroup
	streams := 0
	for name, fds := range d.given.Stored {
		if strings.HasPrefix(name, sharedName) { // they go on by their names
			continue
		}
		d.manager.Forget(name)
		v, record := storedClient(fds)
		switch {
		case record:
			clients = append(clients, v)
		case !v.Client.Lifeline.IsNone():
			streams++
			ending.Go(func() {
				if l, err := link.AttachStream(link.StreamOptions{}, link.State{Socket: v.Client.Lifeline}); err == nil {
					l.Drain() // as at a stop: the client is blocked by nothing that it has sent
					_ = l.Close()
				}
			})
		}
	}
	ending.Wait()
	if len(d.given.Stored) > 0 {
		d.log.Warn("the process before this one did not end in order", "clients_that_go_on", len(clients), "streams_closed", streams)
	}
	return clients
}

// storedClient is the client whose descriptors these are. Without a record it is a stream, whose socket is in the lifeline's place.
func storedClient(fds []int) (v perclient.Detached, record bool) {
	var socket, stream link.Descriptor
	for _, fd := range fds {
		switch kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); {
		case err != nil:
			b, err := handover.ReadMemory(fd)
			record = err == nil && json.Unmarshal(b, &v) == nil
		case kind == unix.SOCK_STREAM:
			stream.FD = fd
		default:
			socket.FD = fd
		}
	}
	v.Link, v.Client.Lifeline = link.State{Socket: socket}, stream
	return v, record && !socket.IsNone()
}
