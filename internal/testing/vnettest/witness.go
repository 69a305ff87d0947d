// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// witnesses are two more clients of a daemon, by which one sees from outside that it has forgotten another: a frame from
// the one to an address of the client that has gone reaches the other only when no station has that address any more. Until
// then it makes the daemon send to the client that has gone.
type witnesses struct {
	socket string

	mu         sync.Mutex
	asks, sees *fakeguest.Guest // nil before the first use
}

// start connects the two.
func (w *witnesses) start() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range []**fakeguest.Guest{&w.asks, &w.sees} {
		if *g == nil {
			if *g, err = fakeguest.Dial(w.socket, fakeguest.Options{Quiet: true}); err != nil {
				return err
			}
		}
	}
	w.sees.SetTap(func(f []byte) bool { return !bytes.Equal(f[6:12], w.asks.MAC()) })
	return w.sees.Send(question(w.sees, fakeguest.Broadcast)) // so that its port starts
}

func question(from *fakeguest.Guest, to net.HardwareAddr) []byte {
	return fakeguest.EthernetFrame(to, from.MAC(), fakeguest.TypeTest, make([]byte, 46))
}

// await waits until no station has the address mac, which a client had.
func (w *witnesses) await(mac net.HardwareAddr) error {
	if err := w.start(); err != nil {
		return fmt.Errorf("see whether the client is forgotten: %w", err)
	}
	l := w.sees.Listen(func(f []byte) bool { return bytes.Equal(f[:6], mac) })
	defer l.Close()
	for end := time.Now().Add(closeTimeout); time.Now().Before(end); {
		if err := w.asks.Send(question(w.asks, mac)); err != nil {
			return fmt.Errorf("see whether the client is forgotten: %w", err)
		}
		if _, err := l.Next(time.Millisecond); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s after a client left, the daemon still has its address %s", closeTimeout, mac)
}

// close ends both. No await is under way, and none follows.
func (w *witnesses) close() {
	for _, g := range []*fakeguest.Guest{w.asks, w.sees} {
		if g != nil {
			g.Close()
		}
	}
}
