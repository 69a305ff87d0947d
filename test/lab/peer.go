// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// A Peer is a client of the daemon's stream socket that outlives daemons: it connects again within a millisecond or two of
// a new one taking connections, so that what it misses is what the daemon and the guests make it miss. It sends numbered
// frames to guests all the time and follows those that come from them.
type Peer struct {
	socket   string
	mac      net.HardwareAddr
	interval time.Duration
	all      bool      // it follows frames for others, too
	zero     time.Time // of its clock
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	conn   net.Conn // nil while it has none
	joined []time.Time
	ended  []time.Time
	faults []error
	from   map[string]*sequence.Tracker
	to     map[string][]byte
}

// retryEvery is the time between two tries to connect.
const retryEvery = time.Millisecond

// peerFrame is the size of the frames a Peer sends, in bytes.
const peerFrame = 200

// Count is a Peer that sends nothing and follows all numbered frames, also those for others. It waits for the connection.
func (l *Lab) Count(ctx context.Context, socket string, mac net.HardwareAddr) (*Peer, error) {
	began := time.Now()
	p := l.NewPeer(socket, mac, time.Hour, true)
	_, err := p.WaitJoined(ctx, began)
	return p, err
}

// NewPeer starts a Peer with the address mac that sends a frame to each guest every interval, and follows the frames for it, or all.
func (l *Lab) NewPeer(socket string, mac net.HardwareAddr, interval time.Duration, all bool) *Peer {
	ctx, stop := context.WithCancel(context.Background())
	p := &Peer{
		socket: socket, mac: mac, interval: interval, all: all, zero: time.Now(), stop: stop,
		from: map[string]*sequence.Tracker{}, to: map[string][]byte{},
	}
	p.wg.Go(func() { p.stay(ctx) })
	p.wg.Go(func() { p.send(ctx) })
	l.AtClose(p.Close)
	return p
}

// SendTo has the Peer send to the guest with the address mac from now on.
func (p *Peer) SendTo(mac string) error {
	to, err := net.ParseMAC(mac)
	if err != nil {
		return fmt.Errorf("send to a guest: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to[mac] = sequence.New(to, p.mac, peerFrame)
	return nil
}

// stay connects whenever there is no connection.
func (p *Peer) stay(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := join(p.socket, p.mac)
		if err != nil {
			time.Sleep(retryEvery)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		p.mu.Lock()
		p.conn, p.joined = conn, append(p.joined, time.Now())
		p.mu.Unlock()
		err = readFrames(conn, p.take)
		p.mu.Lock()
		p.conn, p.ended = nil, append(p.ended, time.Now())
		if err != nil && ctx.Err() == nil {
			p.faults = append(p.faults, err)
		}
		p.mu.Unlock()
		_ = conn.Close()
		stop()
	}
}

// send sends one numbered frame to each guest at every tick. Frames are numbered and lost while there is no connection too.
func (p *Peer) send(ctx context.Context) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	var batch []byte
	for n := uint64(1); ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		batch = batch[:0]
		for _, b := range p.to {
			sequence.Put(b, sequence.Frame{Number: n, Sent: time.Since(p.zero), Run: 1})
			batch = frame.Append(batch, b)
		}
		conn := p.conn
		p.mu.Unlock()
		if conn != nil && len(batch) > 0 {
			_, _ = conn.Write(batch) // an error ends the reader too
		}
	}
}

func (p *Peer) take(b frame.Batch) {
	now := time.Since(p.zero)
	p.mu.Lock()
	defer p.mu.Unlock()
	for it := b.Iter(); it.Next(); {
		// A daemon that has just started floods frames between guests.
		f, ok, intact := sequence.Parse(it.Frame())
		if !ok || !p.all && !bytes.Equal(it.Frame()[:6], p.mac) {
			continue
		}
		from := net.HardwareAddr(it.Frame()[6:12]).String()
		if p.from[from] == nil {
			p.from[from] = &sequence.Tracker{}
		}
		p.from[from].Take(f, now, intact)
	}
}

// Clock is the time t on the Peer's clock, which its reports use.
func (p *Peer) Clock(t time.Time) time.Duration { return t.Sub(p.zero) }

// From is what has come from the guest with the address mac since the last Cut.
func (p *Peer) From(mac string) sequence.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.from[mac]; t != nil {
		return t.Report()
	}
	return sequence.Report{}
}

// Cut begins a new period of all reports.
func (p *Peer) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.from {
		t.Cut()
	}
}

// Ended returns when a connection of the Peer ended for the first time after since, the zero Time when none has.
func (p *Peer) Ended(since time.Time) time.Time { return p.first(&p.ended, since) }

func (p *Peer) first(times *[]time.Time, since time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range *times {
		if t.After(since) {
			return t
		}
	}
	return time.Time{}
}

// WaitJoined waits for a connection made after since and returns when that was.
func (p *Peer) WaitJoined(ctx context.Context, since time.Time) (t time.Time, err error) {
	err = Poll(ctx, func() error {
		if t = p.first(&p.joined, since); t.IsZero() {
			return fmt.Errorf("no connection to %s", p.socket)
		}
		return nil
	})
	return t, err
}

// Faults are the connections so far that were not one of whole frames up to an orderly end. Those of a daemon that was
// killed may be.
func (p *Peer) Faults() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), p.faults...)
}

// Close ends the Peer.
func (p *Peer) Close() {
	p.stop()
	p.wg.Wait()
}

// join connects to socket and broadcasts one frame, so that the bridge knows where mac is.
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

// readFrames hands the frames of a stream to take until it ends. An end between two frames, or by us, is no error.
func readFrames(r io.Reader, take func(b frame.Batch)) error {
	buf, have := make([]byte, 1<<20), 0
	for {
		n, err := r.Read(buf[have:])
		rest := buf[:have+n]
		for {
			batch, used, _, scanErr := frame.Scan(rest)
			if scanErr != nil {
				return scanErr
			}
			if used == 0 {
				break
			}
			take(batch)
			rest = rest[used:]
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
