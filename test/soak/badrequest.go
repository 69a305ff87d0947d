// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A request is what is sent to a socket that waits for one.
type request struct {
	name string
	text func(s source) string
	fds  func(s source) []*os.File // closed after it was sent
	cut  bool                      // and nothing follows for a while
}

// lines are bad requests of attach and adopt.
func lines() []request {
	fixed := func(text string) func(source) string { return func(source) string { return text } }
	return []request{
		{name: "not JSON", text: fixed("hello\n")},
		{name: "empty line", text: fixed("\n")},
		{name: "wrong type", text: fixed(`{"version":"one"}` + "\n")},
		{name: "null", text: fixed("null\n")},
		{name: "list", text: fixed(`[1,2,3]` + "\n")},
		{name: "later version", text: fixed(`{"version":4294967296}` + "\n")},
		{name: "unknown transport", text: fixed(`{"version":1,"transport":"pigeon"}` + "\n")},
		{name: "bad MAC", text: fixed(`{"version":1,"mac":"ff:ff:ff:ff:ff:ff"}` + "\n")},
		{name: "bad interface id", text: fixed(`{"version":1,"interface_id":"00000000-0000-0000-0000-000000000000"}` + "\n")},
		{name: "name that does not print", text: fixed(`{"version":1,"name":"a\u001b[31mb\n"}` + "\n")},
		{name: "deep JSON", text: fixed(strings.Repeat(`{"a":[`, 600) + "\n")},
		{name: "too long", text: fixed(`{"version":1,"name":"` + strings.Repeat("x", 8000) + `"}` + "\n")},
		{name: "no line end", text: fixed(`{"version":1}`), cut: true},
		{name: "nothing", text: fixed(""), cut: true},
		{name: "NUL without a descriptor", text: fixed("\x00")},
		{name: "two lines", text: fixed(`{"version":1}` + "\n" + `{"version":1}` + "\n")},
		{name: "random bytes", text: func(s source) string {
			b := make([]byte, s.IntN(5000))
			for i := range b {
				b[i] = byte(s.Uint32())
			}
			return string(b) + "\n"
		}},
		{name: "file as descriptor", text: fixed(`{"version":1}` + "\n"), fds: func(source) []*os.File { return open("/dev/null") }},
		{name: "pipe as descriptor", text: fixed("\x00"), fds: pipe},
		{name: "stream for datagrams", text: fixed(`{"version":1,"transport":"dgram"}` + "\n"), fds: pairOf(unix.SOCK_STREAM)},
		{name: "datagrams for stream", text: fixed(`{"version":1,"transport":"stream"}` + "\n"), fds: pairOf(unix.SOCK_DGRAM)},
		{name: "sequenced packets", text: fixed(`{"version":1}` + "\n"), fds: pairOf(unix.SOCK_SEQPACKET)},
		{name: "unconnected socket", text: fixed(`{"version":1}` + "\n"), fds: lone},
		{name: "end whose other one is closed", text: fixed("\x00"), fds: func(s source) []*os.File { return pairOf(unix.SOCK_DGRAM)(s)[:1] }},
		{name: "many descriptors", text: fixed(`{"version":1}` + "\n"), fds: func(s source) (all []*os.File) {
			for range 2 + s.IntN(60) {
				all = append(all, open("/dev/null")...)
			}
			return all
		}},
	}
}

// badRequests are what is tried on attach, adopt and control.
func badRequests() (all []choice[badThing]) {
	for _, socket := range []string{"attach", "adopt"} {
		for _, q := range lines() {
			all = append(all, choice[badThing]{2, badThing{socket + ": " + q.name, func(h *hostile, ctx context.Context, s source) int {
				return h.ask(ctx, s, socket, q)
			}}})
		}
	}
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{",
		"GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1\r\n\r\n", "\x00\x01\x02", "DELETE /v1/upgrade HTTP/1.1\r\nHost: x\r\n\r\n", "G",
	} {
		q := request{name: "request", text: func(source) string { return text }, cut: len(text) == 1}
		all = append(all, choice[badThing]{2, badThing{fmt.Sprintf("control: %.12q", text), func(h *hostile, ctx context.Context, s source) int {
			return h.ask(ctx, s, "control", q)
		}}})
	}
	return append(all, choice[badThing]{6, badThing{"attach: leaves before the answer", func(h *hostile, ctx context.Context, _ source) int {
		c := h.dialSide(ctx, "attach")
		if c == nil {
			return 0
		}
		_, _ = c.Write([]byte(`{"version":1}` + "\n"))
		_ = c.Close()
		return 1
	}}})
}

// dialSide connects to one of the sockets beside the daemon's, nil if that is not there.
func (h *hostile) dialSide(ctx context.Context, name string) *net.UnixConn {
	c, err := (&net.Dialer{Timeout: lineTimeout}).DialContext(ctx, "unix", h.r.place.socket+".d/"+name)
	if err != nil {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(h.r.o.Patience))
	return c.(*net.UnixConn)
}

// ask sends a bad request and reads what comes. A request that is none must not be left open for ever: the daemon ends it.
func (h *hostile) ask(ctx context.Context, s source, socket string, q request) int {
	c := h.dialSide(ctx, socket)
	if c == nil {
		return 0
	}
	defer func() { _ = c.Close() }()
	var oob []byte
	if q.fds != nil {
		files := q.fds(s)
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
			defer func() { _ = f.Close() }()
		}
		oob = unix.UnixRights(fds...)
	}
	text := q.text(s)
	if text != "" {
		if _, _, err := c.WriteMsgUnix([]byte(text), oob, nil); err != nil {
			return 1
		}
	}
	if q.cut {
		sleep(ctx, s.between(0, time.Second))
		return 1
	}
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	return 1
}

func open(path string) []*os.File {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	return []*os.File{f}
}

func pipe(source) []*os.File {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	_ = w.Close()
	return []*os.File{r}
}

func pairOf(kind int) func(source) []*os.File {
	return func(source) []*os.File {
		a, b, err := socketPair(kind)
		if err != nil {
			return nil
		}
		_ = b.Close()
		return []*os.File{a}
	}
}

func lone(source) []*os.File {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil
	}
	unix.CloseOnExec(fd)
	return []*os.File{os.NewFile(uintptr(fd), "lone socket")}
}
