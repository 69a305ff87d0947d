// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// guestPrefix begins the names under which this program is the network part of a virtual machine, in a process of its own as
// VMMs are: what it is called is what status shows.
const guestPrefix = "vm-"

const (
	// askPause is how long a guest waits for an answer of DHCP before it asks again. Real ones are slower each time.
	askPause = time.Second
	// redialPause is how long a guest waits before it connects again, as QEMU does with reconnect.
	redialPause = 50 * time.Millisecond
)

// A vm is a guest that is told on standard input what to do, a line each, and answers each line with one.
type vm struct {
	name, socket string
	mac          net.HardwareAddr

	mu     sync.Mutex
	guest  *fakeguest.Guest // nil while there is no connection
	static netip.Prefix     // zero: by DHCP
	asking bool
	flood  chan struct{} // closed to end it; nil: none
}

// runGuest is the whole program under the name of a guest. It ends with its input.
func runGuest(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: %s SOCKET MAC", args[0])
	}
	mac, err := net.ParseMAC(args[2])
	if err != nil {
		return err
	}
	v := &vm{name: strings.TrimPrefix(args[0], guestPrefix), socket: args[1], mac: mac}
	go v.stayConnected()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := v.do(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// stayConnected connects, and again whenever the connection has ended. It ends with the process.
func (v *vm) stayConnected() {
	for ; ; time.Sleep(redialPause) {
		g, err := fakeguest.Dial(v.socket, fakeguest.Options{Name: v.name, MAC: v.mac, Timeout: askPause})
		if err != nil {
			continue
		}
		v.mu.Lock()
		v.guest = g
		if v.static.IsValid() {
			g.SetAddr(v.static, v.static.Masked().Addr().Next())
			_ = g.Announce()
		}
		v.mu.Unlock()
		<-g.Done()
		v.mu.Lock()
		v.guest = nil
		v.mu.Unlock()
		g.Close()
	}
}

// current is the guest of the connection that there is.
func (v *vm) current() (*fakeguest.Guest, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		v.mu.Lock()
		g := v.guest
		v.mu.Unlock()
		if g != nil {
			return g, nil
		}
	}
	return nil, errors.New("not connected")
}

// do carries out one line.
func (v *vm) do(words []string) (string, error) {
	switch strings.Join(words[:min(1, len(words))], "") {
	case "connect":
		_, err := v.current()
		return "ok", err
	case "ask":
		v.mu.Lock()
		defer v.mu.Unlock()
		if !v.asking {
			v.asking = true
			go v.ask()
		}
		return "ok", nil
	case "lease":
		return v.lease()
	case "static":
		return v.configure(words[1:])
	case "ping":
		return v.ping(words[1:])
	case "flood":
		return v.startFlood(words[1:])
	case "quiet":
		if v.flood != nil {
			close(v.flood)
			v.flood = nil
		}
		return "ok", nil
	}
	return "", fmt.Errorf("unknown: %q", words)
}

// ask asks for a lease until it has one, also on later connections.
func (v *vm) ask() {
	for {
		g, err := v.current()
		if err == nil && !g.Addr().IsValid() {
			if _, err = g.Configure(); err == nil {
				_ = g.Announce()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lease waits for the address that DHCP gives.
func (v *vm) lease() (string, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if g, err := v.current(); err == nil && g.Addr().IsValid() {
			return g.Addr().String(), nil
		}
	}
	return "", errors.New("no lease")
}

// configure gives the guest an address by hand, as in "192.168.105.9/24".
func (v *vm) configure(words []string) (string, error) {
	if len(words) != 1 {
		return "", errors.New("usage: static ADDRESS/BITS")
	}
	p, err := netip.ParsePrefix(words[0])
	if err != nil {
		return "", err
	}
	g, err := v.current()
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	v.static = p
	v.mu.Unlock()
	g.SetAddr(p, p.Masked().Addr().Next())
	return "ok", g.Announce()
}

func (v *vm) ping(words []string) (string, error) {
	if len(words) != 1 {
		return "", errors.New("usage: ping ADDRESS")
	}
	to, err := netip.ParseAddr(words[0])
	if err != nil {
		return "", err
	}
	g, err := v.current()
	if err != nil {
		return "", err
	}
	_, err = g.Ping(to, 56)
	return "ok", err
}

// floodFrames and floodLength are what a flood sends each 10 ms: 2.8 MB/s, so that a queue of 2 MiB is full in a second.
const (
	floodFrames = 20
	floodLength = 1400
)

// startFlood sends frames to a MAC address until it is told to be quiet.
func (v *vm) startFlood(words []string) (string, error) {
	if len(words) != 1 || v.flood != nil {
		return "", errors.New("usage: flood MAC, once")
	}
	to, err := net.ParseMAC(words[0])
	if err != nil {
		return "", err
	}
	frames := make([][]byte, floodFrames)
	for i := range frames {
		frames[i] = fakeguest.EthernetFrame(to, v.mac, 0x88b5, make([]byte, floodLength)) // an EtherType for experiments
	}
	stop := make(chan struct{})
	v.flood = stop
	go func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				if g, err := v.current(); err == nil {
					_ = g.Send(frames...)
				}
			}
		}
	}()
	return "ok", nil
}
