// SPDX-License-Identifier: Apache-2.0

// Package vnettest tests networks: a conformance suite that every network.Network passes (TestNetwork), all ways into a running daemon
// (Ways), and the fake guests of fakeguest for the length of a test (Attach, Dial).
package vnettest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// patience is how long the suite waits for a frame or a call to come back.
const patience = 30 * time.Second

// A check is one subtest of the suite.
type check struct {
	name string
	run  func(*lan)
}

// checks is the suite. What each one proves stands with its function.
var checks = []check{
	{"Info", checkInfo},
	{"Forward", checkForward},
	{"ManyToOne", checkManyToOne},
	{"AddressLeavesWithPort", checkAddressLeavesWithPort},
	{"DeafSink", checkDeafSink},
	{"HeldSink", checkHeldSink},
	{"FirstFrame", checkFirstFrame},
	{"AttachContext", checkAttachContext},
	{"SendAfterClose", checkSendAfterClose},
	{"CloseWaits", checkCloseWaits},
	{"CloseTwice", checkCloseTwice},
	{"NothingAfterClose", checkNothingAfterClose},
	{"NetworkClose", checkNetworkClose},
}

// TestNetwork runs the conformance suite: each subtest gets a network of its own from mk and closes it. When that is done,
// no goroutine that mk or the network started may be left. The frames are of an experimental EtherType; others, such as a
// gateway's, are ignored. A network may take seconds per port and deliver from any goroutine.
//
// Run it with the race detector too.
func TestNetwork(t *testing.T, mk func(t *testing.T) network.Network) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			defer func() { assert.NoError(t, goleak.Find(before), "after Close") }()
			l := &lan{t: t, network: mk(t), owner: map[string]*station{}}
			defer l.finish()
			c.run(l)
		})
	}
}

// Attach plugs a guest into a port of n, which waits for its answers for as long as the suite does, unless o has a time. The end of
// the test closes it.
func Attach(tb testing.TB, n network.Network, o fakeguest.Options) *fakeguest.Guest {
	tb.Helper()
	o.Timeout = cmp.Or(o.Timeout, patience)
	g, err := fakeguest.Attach(tb.Context(), n, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Close)
	return g
}

// Dial connects a guest to the stream socket of a daemon that may still be starting. The end of the test closes it.
func Dial(tb testing.TB, path string, o fakeguest.Options) *fakeguest.Guest {
	tb.Helper()
	g, err := fakeguest.Dial(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Close)
	return g
}

// A Log keeps what is logged, for any number of goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ShortDir is a directory whose path is short enough for the sockets below it, and which other users may enter. The end of the test
// removes it.
func ShortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "sv")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// NeedRoot skips a test that becomes another user, and fails it in CI.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		tb.Fatal("CI has to run the tests as root: some become another user")
	default:
		tb.Skip("needs root to become another user: run the tests as root")
	}
}

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
