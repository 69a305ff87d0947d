// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// writeTimeout is how long a daemon may refuse to take frames before the test has failed: it never stops reading a client.
const writeTimeout = 10 * time.Second

// errBadFrame is the end of a connection whose other side broke the wire format.
var errBadFrame = errors.New("the daemon must never send this")

// closeTimeout is how long a daemon may take to close a connection whose client has gone.
const closeTimeout = 5 * time.Second

// socketNetwork makes a network of a daemon: a port is a connection to its stream socket.
type socketNetwork struct {
	path     string
	gateway  netip.Addr
	maxFrame int // bytes

	mu     sync.Mutex
	closed bool
	ports  map[*socketPort]struct{}
}

// SocketNetwork is the network behind the stream socket of a running daemon, so that TestNetwork can be run on the whole
// of it. Frames of up to maxFrame bytes reach other clients: frame.MaxStreamLen, or less where the network carries less. Since a daemon starts a client's port late, Attach asks for the MAC address of gateway and
// waits for the answer.
func SocketNetwork(path string, gateway netip.Addr, maxFrame int) vnet.Network {
	return &socketNetwork{path: path, gateway: gateway, maxFrame: maxFrame, ports: map[*socketPort]struct{}{}}
}

// socketPort is one connection.
type socketPort struct {
	conn     *net.UnixConn
	sink     frame.Sink
	maxFrame int           // bytes
	ready    chan struct{} // closed at the first answer from the gateway

	closing atomic.Bool
	dropped atomic.Uint64
	once    sync.Once
	ended   chan struct{} // closed when read has returned

	failOnce sync.Once
	done     chan struct{}
	err      error // set before done is closed
}

// Info implements vnet.Network.
func (n *socketNetwork) Info() vnet.NetworkInfo {
	return vnet.NetworkInfo{Backend: "socket", Mode: vnet.ModeShared, Gateway: n.gateway, MTU: 1500, MaxFrame: n.maxFrame}
}

// Attach implements vnet.Network.
func (n *socketNetwork) Attach(ctx context.Context, _ vnet.PortOptions, sink frame.Sink) (vnet.Port, error) {
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed {
		return nil, vnet.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", n.path)
	if err != nil {
		return nil, err
	}
	p := &socketPort{
		conn:     conn.(*net.UnixConn),
		sink:     sink,
		maxFrame: n.maxFrame,
		ready:    make(chan struct{}),
		ended:    make(chan struct{}),
		done:     make(chan struct{}),
	}
	go p.run()
	if err := p.await(ctx, n.gateway); err != nil {
		_ = p.Close()
		return nil, err
	}
	n.mu.Lock()
	if closed = n.closed; !closed {
		n.ports[p] = struct{}{}
	}
	n.mu.Unlock()
	if closed {
		_ = p.Close()
		return nil, vnet.ErrClosed
	}
	return p, nil
}

// Close implements vnet.Network: it hangs up on every port.
func (n *socketNetwork) Close() error {
	n.mu.Lock()
	n.closed = true
	ports := slices.Collect(maps.Keys(n.ports))
	clear(n.ports)
	n.mu.Unlock()
	var errs []error
	for _, p := range ports {
		if !p.closing.Load() {
			p.fail(vnet.ErrClosed)
		}
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// probes numbers the addresses from which ports ask for the gateway.
var probes atomic.Uint32

// await asks for the gateway and waits for the answer. It asks once: the daemon may start a port late, but keeps what came
// before it.
func (p *socketPort) await(ctx context.Context, gateway netip.Addr) error {
	i := probes.Add(1)
	mac := net.HardwareAddr{0x02, 'p', 'r', byte(i >> 16), byte(i >> 8), byte(i)}
	ask := fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeARP,
		fakeguest.ARPPacket(fakeguest.ARPRequest, mac, netip.IPv4Unspecified(), make(net.HardwareAddr, 6), gateway))
	ctx, cancel := context.WithTimeout(ctx, fakeguest.DefaultTimeout)
	defer cancel()
	if _, err := p.conn.Write(frame.Append(nil, ask)); err != nil {
		return fmt.Errorf("ask for the gateway: %w", err)
	}
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("ask for the gateway: connection ended: %w", p.err)
	case <-ctx.Done():
		return fmt.Errorf("ask for the gateway: %w", ctx.Err())
	}
}

// run reads until the connection ends; Close waits for it.
func (p *socketPort) run() {
	defer close(p.ended)
	if err := p.read(); !p.closing.Load() {
		p.fail(err)
	}
	_ = p.conn.Close()
}

// read delivers what the daemon sends until the connection ends.
func (p *socketPort) read() error {
	r := bufio.NewReaderSize(p.conn, 256<<10)
	buf := make([]byte, frame.PrefixLen+frame.MaxStreamLen)
	waiting := true
	for {
		if _, err := io.ReadFull(r, buf[:frame.PrefixLen]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(buf))
		if n < frame.MinLen || n > frame.MaxStreamLen {
			return fmt.Errorf("read frame of %d bytes: %w", n, errBadFrame)
		}
		f := buf[frame.PrefixLen : frame.PrefixLen+n]
		if _, err := io.ReadFull(r, f); err != nil {
			return fmt.Errorf("read body of a frame of %d bytes: %w", n, err)
		}
		if waiting {
			if a, err := fakeguest.Parse(f); err == nil && a.ARPOp == fakeguest.ARPReply {
				waiting = false
				close(p.ready)
			}
		}
		if !p.closing.Load() && n <= p.sink.MaxFrame() {
			p.sink.Deliver(frame.NewBatch(buf[:frame.PrefixLen+n], 1))
		}
	}
}

func (p *socketPort) fail(err error) {
	p.failOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Send implements vnet.Port.
func (p *socketPort) Send(b frame.Batch) {
	if !p.closing.Load() {
		_ = p.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := p.conn.Write(b.Bytes())
		switch {
		case err == nil:
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.fail(fmt.Errorf("the daemon does not read: %w", err))
		}
	}
	p.dropped.Add(uint64(b.Len()))
}

// Close implements vnet.Port: it ends the sending side and waits until the daemon has closed the connection, by which
// time it has forgotten the port.
func (p *socketPort) Close() error {
	p.once.Do(func() {
		p.closing.Store(true)
		_ = p.conn.SetReadDeadline(time.Now().Add(closeTimeout))
		_ = p.conn.CloseWrite()
	})
	<-p.ended
	return nil
}

// Info implements vnet.Port.
func (p *socketPort) Info() vnet.PortInfo {
	return vnet.PortInfo{MTU: 1500, MaxFrame: p.maxFrame}
}

// Stats implements vnet.Port. Only frames sent after Close are counted.
func (p *socketPort) Stats() vnet.PortStats {
	s := vnet.PortStats{Drops: map[vnet.DropReason]uint64{}}
	if n := p.dropped.Load(); n > 0 {
		s.Drops[vnet.DropClosed] = n
	}
	return s
}

// Done implements vnet.Port.
func (p *socketPort) Done() <-chan struct{} { return p.done }

// Err implements vnet.Port.
func (p *socketPort) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}
