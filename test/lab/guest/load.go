// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// load sends numbered frames without end, one every interval, or as fast as the interface takes them when that is 0.
func load(iface, mac string, size int, interval time.Duration) error {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", iface, err)
	}
	dst, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	fd, err := packetSocket(ifi.Index, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := sequence.New(dst, ifi.HardwareAddr, size)
	clock := newClock()
	run := uint64(clock.now())
	next := time.Now()
	for n := uint64(1); ; n++ {
		if interval > 0 {
			// After a time without a processor it goes on at its pace, with the next number: what was not sent is not lost.
			next = next.Add(interval)
			if wait := time.Until(next); wait > 0 {
				time.Sleep(wait)
			} else if wait < -10*interval {
				next = time.Now()
			}
		}
		sequence.Put(b, sequence.Frame{Number: n, Sent: clock.now(), Run: run})
		_, err := unix.Write(fd, b)
		for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) {
			time.Sleep(time.Millisecond)
			_, err = unix.Write(fd, b)
		}
		if err != nil {
			return fmt.Errorf("send frame %d: %w", n, err)
		}
	}
}

// packetSocket opens a socket for frames of one EtherType, 0 for sending only.
func packetSocket(iface int, etherType uint16) (int, error) {
	protocol := etherType<<8 | etherType>>8 // in network order on the little-endian machine that a guest is
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(protocol))
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: iface, Protocol: protocol}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind packet socket: %w", err)
	}
	return fd, nil
}

// A clock is the guest's monotonic one, the same for all its processes.
type clock struct {
	start time.Time
	base  time.Duration
}

func newClock() clock {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return clock{start: time.Now(), base: time.Duration(ts.Nano())}
}

func (c clock) now() time.Duration { return c.base + time.Since(c.start) }
