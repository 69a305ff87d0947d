// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

// watchAddress is where watch answers, see serve.
const watchAddress = "127.0.0.1:5002"

// watcher follows the numbered frames that arrive, by the address they come from.
type watcher struct {
	mu   sync.Mutex
	from map[string]*sequence.Tracker
}

// watch follows the numbered frames that arrive at iface and answers who asks for them.
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
		// What a bridge floods for another station does not count. It arrives where the interface is promiscuous.
		if f, ok, intact := sequence.Parse(b[:n]); ok && bytes.Equal(b[:6], ifi.HardwareAddr) {
			from := net.HardwareAddr(b[6:12]).String()
			w.mu.Lock()
			if w.from[from] == nil {
				w.from[from] = &sequence.Tracker{}
			}
			w.from[from].Take(f, clock.now(), intact)
			w.mu.Unlock()
		}
	}
}

// serve tells each connection what there is. A connection sends one line: "report" for all there is, "count" for all but the
// gaps, which take their time over a serial line, "cut" for the same and a new period.
func (w *watcher) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		word, _ := bufio.NewReader(c).ReadString('\n')
		_ = json.NewEncoder(c).Encode(w.reports(strings.TrimSpace(word)))
		c.Close()
	}
}

func (w *watcher) reports(word string) map[string]sequence.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	reports := map[string]sequence.Report{}
	for from, t := range w.from {
		r := t.Report()
		if word != "report" {
			r.Gaps = nil
		}
		if word == "cut" {
			t.Cut()
		}
		reports[from] = r
	}
	return reports
}
