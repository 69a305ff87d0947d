// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// connectPause is between two attempts to connect to a daemon that is starting.
const connectPause = 200 * time.Microsecond

// Ready starts a daemon that has a gateway, and returns how long it took from then until a client was served: connected, and its
// question for the gateway's hardware address answered. The daemon is stopped.
func (r *Rig) Ready(ctx context.Context, kind string) (took time.Duration, err error) {
	begin := time.Now()
	l, err := r.Start(kind)
	if err != nil {
		return 0, err
	}
	err = l.ask(ctx)
	took = time.Since(begin)
	if stopErr := l.Stop(); err == nil {
		err = stopErr
	}
	return took, err
}

// ask connects, asks for the gateway's hardware address and waits for the answer.
func (r *Relay) ask(ctx context.Context) error {
	deadline := time.Now().Add(waitTime)
	c, err := r.dial(ctx, deadline)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(deadline); err != nil {
		return fmt.Errorf("limit the wait for an answer: %w", err)
	}
	if _, err := c.Write(question()); err != nil {
		return fmt.Errorf("ask for the gateway's address: %w", err)
	}
	for prefix := make([]byte, frame.PrefixLen); ; {
		if _, err := io.ReadFull(c, prefix); err != nil {
			return fmt.Errorf("wait for the gateway's answer: %w%s", err, r.Diagnosis())
		}
		f := make([]byte, binary.BigEndian.Uint32(prefix))
		if _, err := io.ReadFull(c, f); err != nil {
			return fmt.Errorf("wait for the gateway's answer: %w%s", err, r.Diagnosis())
		}
		if len(f) >= arpEnd && bytes.Equal(f[12:22], []byte{0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2}) {
			return nil
		}
	}
}

// dial connects as soon as the socket takes connections.
func (r *Relay) dial(ctx context.Context, deadline time.Time) (net.Conn, error) {
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
		if err == nil {
			return c, nil
		}
		if aliveErr := r.Alive(); aliveErr != nil {
			return nil, aliveErr
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("connect to a daemon that is starting: %w%s", err, r.Diagnosis())
		}
		time.Sleep(connectPause)
	}
}

// arpEnd is the length of an ARP packet for IPv4 behind its Ethernet header.
const arpEnd = 14 + 28

// question is an ARP request for the gateway's address, in wire form. Its sender has no address yet.
func question() []byte {
	sender := []byte{0x02, 0x62, 0x65, 0x6e, 0xff, 0x01}
	b := binary.BigEndian.AppendUint32(nil, arpEnd)
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = append(b, sender...)
	b = append(b, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1) // ARP, Ethernet, IPv4, a request
	b = append(b, sender...)
	b = append(b, 0, 0, 0, 0)
	b = append(b, 0, 0, 0, 0, 0, 0)
	return append(b, netip.MustParseAddr(gateway).AsSlice()...)
}
