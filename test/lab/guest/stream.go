// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// blockSize is what pump sends at a time, in bytes. A block is full of its own number, counted from 1, in 8 bytes each.
const blockSize = 16 << 10

func fillBlock(b []byte, n uint64) {
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], n)
	}
}

// progress is what pump and verify print twice a second, for the one connection they have.
type progress struct {
	word    string
	bytes   int
	bad     int           // pieces that were not what pump sent
	stall   time.Duration // the longest time in which nothing went on
	latest  time.Time
	printed time.Time
}

func newProgress(word string) *progress {
	now := time.Now()
	return &progress{word: word, latest: now, printed: now}
}

func (p *progress) add(n, bad int) {
	now := time.Now()
	p.stall = max(p.stall, now.Sub(p.latest))
	p.bytes, p.bad, p.latest = p.bytes+n, p.bad+bad, now
	if now.Sub(p.printed) >= 500*time.Millisecond {
		p.printed = now
		p.print("")
	}
}

func (p *progress) print(end string) {
	fmt.Printf("E2E %s=%d bad=%d stall_ms=%d ended=%s\n", p.word, p.bytes, p.bad, p.stall.Milliseconds(), end)
}

// verify takes one TCP connection after the other and checks that each carries pump's blocks.
func verify(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		p := newProgress("received")
		p.print("")
		p.print(fmt.Sprintf("%q", verifyConn(c, p).Error()))
		c.Close()
	}
}

func verifyConn(c net.Conn, p *progress) error {
	b, want, block := make([]byte, 64<<10), make([]byte, blockSize), uint64(1)
	fillBlock(want, block)
	at := 0
	for {
		n, err := c.Read(b)
		bad := 0
		for rest := b[:n]; len(rest) > 0; {
			k := min(len(rest), blockSize-at)
			if !bytes.Equal(rest[:k], want[at:at+k]) {
				bad++
			}
			rest, at = rest[k:], at+k
			if at == blockSize {
				at, block = 0, block+1
				fillBlock(want, block)
			}
		}
		p.add(n, bad)
		if err != nil {
			return err
		}
	}
}

// pump sends blocks over one TCP connection, mbit of them in a second (0: all it takes), until it breaks or is killed.
func pump(addr string, mbit int) error {
	c, err := net.DialTimeout("tcp", addr, patience)
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); { // verify may just be starting
		time.Sleep(50 * time.Millisecond)
		c, err = net.DialTimeout("tcp", addr, patience)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	p, b := newProgress("sent"), make([]byte, blockSize)
	next := time.Now()
	for n := uint64(1); ; n++ {
		fillBlock(b, n)
		sent, err := c.Write(b)
		p.add(sent, 0)
		if err != nil {
			p.print(fmt.Sprintf("%q", err.Error()))
			return err
		}
		if mbit == 0 {
			continue
		}
		next = next.Add(time.Duration(blockSize*8*1000/mbit) * time.Nanosecond)
		if wait := time.Until(next); wait > 0 {
			time.Sleep(wait)
			p.latest = time.Now()
		} else if wait < -time.Second {
			next = time.Now()
		}
	}
}

// patience is how much longer than it takes on a machine with nothing else to do anything may take.
const patience = 30 * time.Second
