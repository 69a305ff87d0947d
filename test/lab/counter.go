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
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// A Counter is a client of the daemon's stream socket that counts the numbered frames of "guest load".
type Counter struct {
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
	conn, err := join(socket, mac)
	if err != nil {
		return nil, fmt.Errorf("connect counter: %w", err)
	}
	c := &Counter{conn: conn, done: make(chan struct{}), seen: map[string]Count{}}
	go c.read()
	l.AtClose(c.Close)
	return c, nil
}

// join connects to socket and sends one frame to everybody, so that the bridge knows where mac is.
func join(socket string, mac net.HardwareAddr) (net.Conn, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	hello := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
	hello = append(binary.BigEndian.AppendUint16(hello, sequence.EtherType), make([]byte, 46)...)
	if _, err := conn.Write(frame.Append(nil, hello)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Counter) read() {
	defer close(c.done)
	if err := readFrames(c.conn, c.take); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault = err
	}
}

// readFrames hands the frames of a stream to take until it ends. An end between two frames, or by us, is no error.
func readFrames(r io.Reader, take func(b frame.Batch)) error {
	buf, have := make([]byte, 1<<20), 0
	for {
		n, err := r.Read(buf[have:])
		rest, scanErr := scan(buf[:have+n], take)
		if scanErr != nil {
			return scanErr
		}
		have = copy(buf, rest)
		switch {
		case err == nil:
			continue
		case errors.Is(err, net.ErrClosed): // by us
		case have > 0:
			return fmt.Errorf("read frames: the last one was cut: %d bytes of it came before: %w", have, err)
		case !errors.Is(err, io.EOF):
			return fmt.Errorf("read frames: %w", err)
		}
		return nil
	}
}

// scan takes the whole frames of b and returns the rest.
func scan(b []byte, take func(b frame.Batch)) (rest []byte, err error) {
	for {
		batch, used, _, err := frame.Scan(b)
		if err != nil || used == 0 {
			return b, err
		}
		take(batch)
		b = b[used:]
	}
}

func (c *Counter) take(b frame.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		f, ok, _ := sequence.Parse(it.Frame())
		if !ok {
			continue
		}
		from := net.HardwareAddr(it.Frame()[6:12]).String()
		c.seen[from] = Count{Frames: c.seen[from].Frames + 1, Last: f.Number}
	}
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
