// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fakevm

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/test/perf/fakevm"
)

// TestContentsArrive sends a stream between two fake VMs beside the measurement and compares what arrives: the VMM's side cuts
// and joins TCP segments, and iperf3 does not look at what it receives.
func TestContentsArrive(t *testing.T) {
	for _, kind := range []string{"tcp daemon stream offload 1500", "tcp daemon passed single 65000"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			compared := make(chan error, 1)
			watch := cancelAt{text: "round 1 of 1", cancel: func() {
				go func() {
					compared <- compareStreams()
					cancel()
				}()
			}}
			_, dir, err := measure(ctx, t, fakevm.Options{Daemon: daemon(t), Progress: &watch, Rounds: 1, Seconds: 100, Only: []string{kind}})
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, <-compared)
			nothingLeft(t, dir)
		})
	}
}

// streamLen is enough for thousands of large packets, and for losses beside the measurement's load.
const streamLen = 8 << 20

// compareStreams sends from the first fake VM to the second.
func compareStreams() error {
	const from, to = "192.168.127.11", "192.168.127.12"
	sender, receiver := findVM(from), findVM(to)
	if sender == 0 || receiver == 0 {
		return fmt.Errorf("no fake VMs with the addresses %s and %s", from, to)
	}
	var l net.Listener
	err := inNamespaceOf(receiver, func() (err error) {
		l, err = net.Listen("tcp4", to+":7000")
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	received := make(chan string, 1)
	go func() {
		received <- receive(l)
	}()
	var sent string
	err = inNamespaceOf(sender, func() error {
		c, err := net.DialTimeout("tcp4", to+":7000", patience)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(3 * patience))
		sum := sha256.New()
		random := rand.New(rand.NewPCG(1, 2))
		piece := make([]byte, 100_000)
		for n := 0; n < streamLen; {
			p := piece[:1+random.IntN(len(piece))]
			for i := range p {
				p[i] = byte(random.Uint32())
			}
			sum.Write(p)
			if _, err := c.Write(p); err != nil {
				return err
			}
			n += len(p)
		}
		sent = fmt.Sprintf("%x", sum.Sum(nil))
		return nil
	})
	if err != nil {
		return err
	}
	if got := <-received; got != sent {
		return fmt.Errorf("what arrived has the checksum %s, what was sent %s", got, sent)
	}
	return nil
}

// receive returns the checksum of what comes, or what went wrong.
func receive(l net.Listener) string {
	c, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * patience))
	sum := sha256.New()
	if _, err := io.Copy(sum, c); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// findVM waits for the fake VM with an address to have it and returns its process.
func findVM(address string) int {
	for end := time.Now().Add(3 * patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		pids, err := descend(os.Getpid())
		if err != nil {
			return 0
		}
		for _, pid := range pids {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			routes, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/fib_trie", pid))
			if strings.Contains(string(command), "\x00"+address+"\x00") && strings.Contains(string(routes), address) {
				return pid
			}
		}
	}
	return 0
}

// inNamespaceOf runs f on a thread that is in the network namespace of a process. Sockets that f makes stay in it.
func inNamespaceOf(pid int, f func() error) error {
	done := make(chan error)
	go func() { // the thread ends with the goroutine, which does not unlock it
		runtime.LockOSThread()
		done <- func() error {
			own, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer own.Close()
			other, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
			if err != nil {
				return err
			}
			defer other.Close()
			if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			defer func() { _ = unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) }() // for the main thread, which does not end
			return f()
		}()
	}()
	return <-done
}

func TestNamespaceOfNobody(t *testing.T) {
	err := inNamespaceOf(1<<30, func() error { return nil })
	assert.ErrorIs(t, err, os.ErrNotExist)
}
