// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A Link is what a Guest's network card is plugged into.
type Link interface {
	// Start begins to pass incoming frames, without prefix, to receive, from any goroutine; they are borrowed and receive
	// does not block. ended is called once, when nothing comes any more because of the other side. With an error neither
	// is called.
	Start(receive func(f []byte), ended func(error)) error
	// Send passes frames on, without prefix, in one piece. One goroutine at a time calls it.
	Send(frames ...[]byte) error
	// Close ends the link and waits until receive is not called any more.
	Close() error
}

// writeTimeout is how long a Guest's stream may refuse to take frames before the test has failed. The daemon never stops
// reading a client.
const writeTimeout = 10 * time.Second

// ErrBadFrame ends a link whose other side sent what some client would not survive.
var ErrBadFrame = errors.New("the daemon must never send this")

// socketLink is what the links of all sockets have in common.
type socketLink struct {
	conn net.Conn
	max  int                         // the longest frame, in bytes
	next func(f []byte) (int, error) // reads a frame into f; one that does not fit has its length only
	gone atomic.Pointer[error]       // what sending showed of the other side's end
	wg   sync.WaitGroup
}

// Start reads more strictly than a client does: what some client would not survive is an error.
func (l *socketLink) Start(receive func([]byte), ended func(error)) error {
	l.wg.Go(func() {
		f := make([]byte, l.max+1)
		n, err := l.next(f)
		for ; err == nil && n >= frame.MinLen && n <= l.max; n, err = l.next(f) {
			receive(f[:n])
		}
		_ = l.conn.Close()
		if gone := l.gone.Load(); gone != nil {
			err = *gone
		} else if err == nil {
			err = fmt.Errorf("read frame of %d bytes: %w", n, ErrBadFrame)
		}
		ended(err)
	})
	return nil
}

func (l *socketLink) Close() error {
	err := l.conn.Close()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) { // by its end
		return nil
	}
	return err
}

// streamLink is a stream socket as QEMU and Lima use it.
type streamLink struct {
	socketLink
	buf []byte
}

// StreamLink carries frames over a connected stream socket in wire form. It takes conn over.
func StreamLink(conn net.Conn) Link {
	r := bufio.NewReaderSize(conn, 256<<10)
	next := func(f []byte) (int, error) { // with a parser of its own
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return 0, err // io.EOF at a frame boundary is the orderly end
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n < frame.MinLen || n > frame.MaxStreamLen {
			return n, nil
		}
		if _, err := io.ReadFull(r, f[:n]); err != nil {
			return 0, fmt.Errorf("read body of a frame of %d bytes: %w", n, err)
		}
		return n, nil
	}
	return &streamLink{socketLink: socketLink{conn: conn, max: frame.MaxStreamLen, next: next}}
}

func (l *streamLink) Send(frames ...[]byte) error {
	l.buf = l.buf[:0]
	for _, f := range frames {
		l.buf = frame.Append(l.buf, f)
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := l.conn.Write(l.buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = l.conn.Close() // a frame may be cut
	}
	return err
}

// CloseWrite ends the sending side. The daemon closes the other then, which ends the link.
func (l *streamLink) CloseWrite() error {
	c, ok := l.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return c.CloseWrite()
}

// portLink is a port of a network, without a client's socket in between.
type portLink struct {
	ctx      context.Context // for Attach
	network  network.Network
	name     string
	maxFrame int
	receive  func([]byte)
	port     network.Port
	closed   chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
	buf      []byte
}

// Deliver implements frame.Sink.
func (l *portLink) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		l.receive(it.Frame())
	}
}

// MaxFrame implements frame.Sink.
func (l *portLink) MaxFrame() int { return l.maxFrame }

func (l *portLink) Start(receive func([]byte), ended func(error)) error {
	l.receive = receive
	port, err := l.network.Attach(l.ctx, network.PortOptions{Name: l.name, ID: l.name}, l)
	if err != nil {
		return err
	}
	l.port = port
	l.wg.Go(func() {
		select {
		case <-l.port.Done():
			ended(l.port.Err())
		case <-l.closed:
			ended(net.ErrClosed)
		}
	})
	return nil
}

func (l *portLink) Send(frames ...[]byte) error {
	l.buf = l.buf[:0]
	for _, f := range frames {
		l.buf = frame.Append(l.buf, f)
	}
	l.port.Send(frame.NewBatch(l.buf, len(frames)))
	return nil
}

func (l *portLink) Close() error {
	if l.port == nil {
		return nil
	}
	err := l.port.Close()
	l.once.Do(func() { close(l.closed) })
	l.wg.Wait()
	return err
}
