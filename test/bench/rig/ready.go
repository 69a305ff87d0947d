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
	if err != nil {
		err = fmt.Errorf("wait for the gateway's answer: %w%s", err, l.Diagnosis())
	}
	if stopErr := l.Stop(); err == nil {
		err = stopErr
	}
	return took, err
}

// ask connects, asks for the gateway's hardware address and waits for the answer.
func (r *Relay) ask(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	var c net.Conn
	err = r.await(ctx, connectPause, func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err := c.Write(question()); err != nil {
		return err
	}
	for prefix := make([]byte, frame.PrefixLen); ; {
		if _, err := io.ReadFull(c, prefix); err != nil {
			return err
		}
		f := make([]byte, binary.BigEndian.Uint32(prefix))
		if _, err := io.ReadFull(c, f); err != nil {
			return err
		}
		if len(f) >= arpEnd && bytes.Equal(f[12:22], []byte{0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2}) {
			return nil
		}
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
