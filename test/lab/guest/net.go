// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func sink(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 256<<10)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		}()
	}
}

func send(addr string, seconds int) error {
	c, err := dialSink(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 128<<10)
	length := time.Duration(seconds) * time.Second
	start := time.Now()
	_ = c.SetDeadline(start.Add(length + patience))
	sent := 0
	for time.Since(start) < length {
		n, err := c.Write(buf)
		sent += n
		if err != nil {
			return fmt.Errorf("send to %s: %w after %d bytes", addr, err, sent)
		}
	}
	fmt.Printf("E2E mbit=%.0f bytes=%d\n", float64(sent)*8/1e6/time.Since(start).Seconds(), sent)
	return nil
}

// patience is how much longer than it takes on a machine with nothing else to do anything may take.
const patience = 30 * time.Second

// dialSink tries for a while, since the sink may just be starting.
func dialSink(addr string) (net.Conn, error) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

func dial(count int, addr string, seconds int) error {
	var open, refused atomic.Int32
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for range count {
		wg.Go(func() {
			d := net.Dialer{Deadline: end}
			c, err := d.Dial("tcp", addr)
			if err != nil {
				if time.Now().Before(end) {
					refused.Add(1)
				}
				return
			}
			defer c.Close()
			open.Add(1)
			time.Sleep(time.Until(end))
		})
	}
	time.Sleep(time.Until(end))
	o, r := open.Load(), refused.Load()
	fmt.Printf("E2E open=%d refused=%d pending=%d\n", o, r, int32(count)-o-r)
	wg.Wait()
	return nil
}

// fetch speaks HTTP/1.0 itself: the program lies in the guests' memory and net/http would triple it.
func fetch(count int, url string) error {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	slowest := time.Duration(0)
	for i := range count {
		start := time.Now()
		if err := fetchOnce(host, path); err != nil {
			return fmt.Errorf("fetch %d of %d: %w", i+1, count, err)
		}
		slowest = max(slowest, time.Since(start))
	}
	fmt.Printf("E2E fetched=%d slowest_ms=%d\n", count, slowest.Milliseconds())
	return nil
}

func fetchOnce(host, path string) error {
	c, err := net.DialTimeout("tcp", host, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host); err != nil {
		return err
	}
	page, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if head, _, _ := strings.Cut(string(page), "\r\n"); !strings.Contains(head, " 200 ") {
		return fmt.Errorf("server says %q", head)
	}
	return nil
}
