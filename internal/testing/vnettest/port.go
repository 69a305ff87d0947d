// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// lowestPort and highestPort bound the ports that FreePort gives: systems hand out those from 32768 (Linux) or 49152 (macOS) on.
const lowestPort, highestPort = 20000, 30000

// given are the ports that FreePort gave: a test asks for several before it uses the first.
var given sync.Map

// FreePort is a TCP and UDP port of this host that is not in use, for what has to be given a number. It is none of those that the
// system hands out: one of these, closed again, may be a connection's of another test by the time it is used.
func FreePort(tb testing.TB) uint16 {
	tb.Helper()
	for range 1000 {
		port := uint16(lowestPort + rand.IntN(highestPort-lowestPort))
		if _, taken := given.LoadOrStore(port, true); !taken && bindable(port) {
			return port
		}
	}
	tb.Fatal("no port is free")
	return 0
}

// bindable reports whether port is free for both protocols, on all addresses.
func bindable(port uint16) bool {
	at := fmt.Sprintf("0.0.0.0:%d", port)
	l, err := net.Listen("tcp4", at)
	if err != nil {
		return false
	}
	defer func() { _ = l.Close() }()
	c, err := net.ListenPacket("udp4", at)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
