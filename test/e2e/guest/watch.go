// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/test/e2e/sequence"
)

// watchAddress is where watch answers seen.
const watchAddress = "127.0.0.1:5002"

// watcher follows the numbered frames that arrive, by the address they come from.
type watcher struct {
	mu   sync.Mutex
	from map[string]*sequence.Tracker
}

// watch follows the numbered frames that arrive at iface and answers seen.
func watch(iface string) error {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", iface, err)
	}
	fd, err := packetSocket(ifi.Index, sequence.EtherType)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return fmt.Errorf("enlarge packet socket: %w", err)
	}
	l, err := net.Listen("tcp", watchAddress)
	if err != nil {
		return err
	}
	w := &watcher{from: map[string]*sequence.Tracker{}}
	go w.serve(l)
	b, clock := make([]byte, 128<<10), newClock()
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR || err == unix.ENETDOWN {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		// What a bridge floods for somebody else does not count. It arrives where the interface is promiscuous.
		if f, ok, intact := sequence.Parse(b[:n]); ok && bytes.Equal(b[:6], ifi.HardwareAddr) {
			w.take(net.HardwareAddr(b[6:12]).String(), f, clock, intact)
		}
	}
}

func (w *watcher) take(from string, f sequence.Frame, c clock, intact bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.from[from]
	if t == nil {
		t = &sequence.Tracker{}
		w.from[from] = t
	}
	t.Take(f, c.now(), intact)
}

// serve tells each connection what there is, and begins a new period for one that sends "cut".
func (w *watcher) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		word, _ := io.ReadAll(c)
		w.mu.Lock()
		reports := map[string]sequence.Report{}
		for from, t := range w.from {
			reports[from] = t.Report()
			if string(word) == "cut" {
				t.Cut()
			}
		}
		w.mu.Unlock()
		_ = json.NewEncoder(c).Encode(reports)
		c.Close()
	}
}

// seen prints what watch has to tell; what is "cut" or "more".
func seen(what string) error {
	c, err := dialSink(watchAddress) // watch may just be starting
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, what); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	fmt.Printf("E2E seen=%s", text)
	return nil
}
