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
	socket   string
	patience time.Duration

	mu     sync.Mutex
	pair   *pair // nil before the first use
	closed bool
	users  sync.WaitGroup
}

type pair struct{ asks, sees *fakeguest.Guest }

func newPair(socket string) (*pair, error) {
	asks, err := fakeguest.Dial(socket, fakeguest.Options{Name: "asks", Quiet: true})
	if err != nil {
		return nil, err
	}
	sees, err := fakeguest.Dial(socket, fakeguest.Options{Name: "sees", Quiet: true})
	if err != nil {
		asks.Close()
		return nil, err
	}
	p := &pair{asks, sees}
	sees.SetTap(func(f []byte) bool { return !bytes.Equal(f[6:12], asks.MAC()) })
	if err := sees.Send(p.frame(sees, fakeguest.Broadcast)); err != nil { // so that its port starts
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pair) close() {
	p.asks.Close()
	p.sees.Close()
}

func (p *pair) frame(from *fakeguest.Guest, to net.HardwareAddr) []byte {
	return fakeguest.EthernetFrame(to, from.MAC(), fakeguest.TypeTest, make([]byte, 46))
}

// get is the pair, and what gives it back. After close it is a new one.
func (w *witnesses) get() (*pair, func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.pair == nil {
		p, err := newPair(w.socket)
		if err != nil {
			return nil, nil, err
		}
		if w.closed {
			return p, p.close, nil
		}
		w.pair = p
	}
	w.users.Add(1)
	return w.pair, w.users.Done, nil
}

// await waits until no station has the address mac, which a client had.
func (w *witnesses) await(mac net.HardwareAddr) error {
	p, done, err := w.get()
	if err != nil {
		return fmt.Errorf("see whether the client is forgotten: %w", err)
	}
	defer done()
	l := p.sees.Listen(func(f []byte) bool { return bytes.Equal(f[:6], mac) })
	defer l.Close()
	for end := time.Now().Add(w.patience); time.Now().Before(end); {
		if err := p.asks.Send(p.frame(p.asks, mac)); err != nil {
			return fmt.Errorf("see whether the client is forgotten: %w", err)
		}
		if _, err := l.Next(time.Millisecond); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s after a client left, the daemon still has its address %s", w.patience, mac)
}

func (w *witnesses) close() {
	w.mu.Lock()
	p := w.pair
	w.pair, w.closed = nil, true
	w.mu.Unlock()
	if p != nil {
		w.users.Wait()
		p.close()
	}
}
