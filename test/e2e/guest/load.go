// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// etherType is the first of the two that IEEE 802 leaves to local experiments.
const etherType = 0x88b5

// load sends frames without end:
//
//	destination (6)  source (6)  type 0x88b5 (2)  number, big-endian, from 1 (8)  zeros
func load(iface, mac string, size int) error {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", iface, err)
	}
	dst, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifi.Index}); err != nil {
		return fmt.Errorf("bind packet socket: %w", err)
	}
	frame := make([]byte, max(size, 22))
	copy(frame, dst)
	copy(frame[6:], ifi.HardwareAddr)
	binary.BigEndian.PutUint16(frame[12:], etherType)
	for n := uint64(1); ; n++ {
		binary.BigEndian.PutUint64(frame[14:], n)
		_, err := unix.Write(fd, frame)
		for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) {
			time.Sleep(time.Millisecond)
			_, err = unix.Write(fd, frame)
		}
		if err != nil {
			return fmt.Errorf("send frame %d: %w", n, err)
		}
	}
}
