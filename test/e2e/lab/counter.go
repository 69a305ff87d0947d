// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// loadType is the EtherType of the frames of the guests' helper program.
const loadType = 0x88b5

// A Counter is a client of the daemon's stream socket that counts the numbered frames of "guest load".
type Counter struct {
	mac  net.HardwareAddr
	conn net.Conn
	done chan struct{}

	mu    sync.Mutex
	seen  map[string]Count
	fault error
}

// A Count is what has come from one guest.
type Count struct {
	Frames int
	// Last is the number of the latest frame.
	Last uint64
}

// Count connects to socket with the address mac. Guests that send to mac reach it alone.
func (l *Lab) Count(socket string, mac net.HardwareAddr) (*Counter, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect counter: %w", err)
	}
	c := &Counter{mac: mac, conn: conn, done: make(chan struct{}), seen: map[string]Count{}}
	// One frame to everybody, so that the bridge knows where mac is.
	hello := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
	hello = append(binary.BigEndian.AppendUint16(hello, loadType), make([]byte, 46)...)
	if _, err := conn.Write(frame.Append(nil, hello)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect counter: %w", err)
	}
	go c.read()
	l.AtClose(c.Close)
	return c, nil
}

func (c *Counter) read() {
	defer close(c.done)
	buf, have := make([]byte, 1<<20), 0
	for {
		n, err := c.conn.Read(buf[have:])
		rest, scanErr := c.scan(buf[:have+n])
		if scanErr != nil {
			c.fail(scanErr)
			return
		}
		have = copy(buf, rest)
		switch {
		case err == nil:
			continue
		case errors.Is(err, net.ErrClosed): // by us
		case !errors.Is(err, io.EOF):
			c.fail(fmt.Errorf("read frames: %w", err))
		case have > 0:
			c.fail(fmt.Errorf("read frames: the last one was cut: %d bytes of it came", have))
		}
		return
	}
}

// scan takes the whole frames of b and returns the rest.
func (c *Counter) scan(b []byte) (rest []byte, err error) {
	for {
		batch, used, _, err := frame.Scan(b)
		if err != nil || used == 0 {
			return b, err
		}
		c.take(batch)
		b = b[used:]
	}
}

func (c *Counter) take(b frame.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		if len(f) < 22 || binary.BigEndian.Uint16(f[12:]) != loadType {
			continue
		}
		from := net.HardwareAddr(f[6:12]).String()
		n := c.seen[from]
		c.seen[from] = Count{Frames: n.Frames + 1, Last: binary.BigEndian.Uint64(f[14:])}
	}
}

func (c *Counter) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = err
}

// From is what has come from the guest with the address mac so far.
func (c *Counter) From(mac string) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[mac]
}

// Err reports a stream that was not one of whole frames up to an orderly end.
func (c *Counter) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// Ended is closed when the daemon has closed the connection.
func (c *Counter) Ended() <-chan struct{} { return c.done }

// Close closes the connection.
func (c *Counter) Close() {
	_ = c.conn.Close()
	<-c.done
}
