// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// badLines are bad requests of attach and adopt. What has no end of a line is not finished.
func badLines(s source) []string {
	random := make([]byte, s.IntN(5000))
	for i := range random {
		random[i] = byte(s.Uint32())
	}
	return []string{
		"hello\n", "\n", `{"version":"one"}` + "\n", "null\n", "[1,2,3]\n", `{"version":4294967296}` + "\n",
		`{"version":1,"transport":"pigeon"}` + "\n", `{"version":1,"mac":"ff:ff:ff:ff:ff:ff"}` + "\n",
		`{"version":1,"interface_id":"00000000-0000-0000-0000-000000000000"}` + "\n", `{"version":1,"name":"a\u001b[31mb\n"}` + "\n",
		strings.Repeat(`{"a":[`, 600) + "\n", `{"version":1,"name":"` + strings.Repeat("x", 8000) + `"}` + "\n", `{"version":1}`, "", "\x00",
		strings.Repeat(`{"version":1}`+"\n", 2), string(random) + "\n",
	}
}

// badCalls are bad requests of the control socket.
var badCalls = []string{
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{",
	"GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1\r\n\r\n", "\x00\x01\x02", "DELETE /v1/upgrade HTTP/1.1\r\nHost: x\r\n\r\n", "G",
}

// badRequests are what is tried on attach, adopt and control.
func badRequests() (all []choice[badThing]) {
	for _, socket := range []string{"attach", "adopt"} {
		all = append(all, choice[badThing]{20, badThing{socket + ": bad line", func(h *hostile, ctx context.Context, s source) int {
			lines := badLines(s)
			return h.ask(ctx, s, socket, lines[s.IntN(len(lines))])
		}}}, choice[badThing]{6, badThing{socket + ": files as sockets", func(h *hostile, ctx context.Context, s source) int {
			f, err := os.Open("/dev/null")
			if err != nil {
				return 0
			}
			defer func() { _ = f.Close() }()
			fds := make([]int, 1+s.IntN(60))
			for i := range fds {
				fds[i] = int(f.Fd())
			}
			return h.ask(ctx, s, socket, `{"version":1}`+"\n", fds...)
		}}})
	}
	return append(all, choice[badThing]{12, badThing{"control: bad call", func(h *hostile, ctx context.Context, s source) int {
		return h.ask(ctx, s, "control", badCalls[s.IntN(len(badCalls))])
	}}})
}

// ask sends a bad request and reads what comes. A request that is none must not be left open for ever: the daemon ends it.
func (h *hostile) ask(ctx context.Context, s source, socket, text string, fds ...int) int {
	c := h.dial(ctx, ".d/"+socket)
	if c == nil {
		return 0
	}
	defer func() { _ = c.Close() }()
	if text != "" {
		if _, _, err := c.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil); err != nil {
			return 1
		}
	}
	if s.IntN(4) == 0 {
		sleep(ctx, s.between(0, time.Second))
		return 1
	}
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	return 1
}

// onDatagrams is a bad thing that is sent to the daemon's datagram socket, from one that is bound to path unless that is empty. put
// puts something else in its place.
func onDatagrams(name string, named bool, put func(path string), send func(h *hostile, s source) [][]byte) badThing {
	return badThing{name, func(h *hostile, ctx context.Context, s source) (n int) {
		local := &net.UnixAddr{Net: "unixgram"}
		if named {
			local.Name = filepath.Join(h.r.o.Dir, "c", fmt.Sprintf("h%d", s.Uint32()))
		}
		c, err := net.ListenUnixgram("unixgram", local)
		if err != nil {
			return 0
		}
		defer func() { _ = c.Close() }()
		if put != nil {
			_ = os.Remove(local.Name)
			put(local.Name)
		}
		if named && s.IntN(4) != 0 { // some are left behind
			defer func() { _ = os.Remove(local.Name) }()
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		for _, b := range send(h, s) {
			if _, err := c.WriteToUnix(b, &net.UnixAddr{Name: vnettest.DatagramPath(h.r.socket), Net: "unixgram"}); err == nil && ctx.Err() == nil {
				n++
			}
		}
		return n
	}}
}

func valid(h *hostile, s source) (all [][]byte) {
	for range 1 + s.IntN(10) {
		all = append(all, h.frame(s, fakeguest.Broadcast, 60))
	}
	return all
}

// badDatagrams are what is tried on the datagram socket.
func badDatagrams() []choice[badThing] {
	lengths := func(lens ...int) func(h *hostile, s source) [][]byte {
		return func(h *hostile, s source) (all [][]byte) {
			for range 1 + s.IntN(20) {
				n := lens[s.IntN(len(lens))]
				all = append(all, h.frame(s, fakeguest.Broadcast, max(n, 32))[:n])
			}
			return all
		}
	}
	return []choice[badThing]{
		{10, onDatagrams("datagram: runts", true, nil, lengths(0, 1, 2, 3, 4, 5, 12, 13))},
		{6, onDatagrams("datagram: too long", true, nil, lengths(65_551, 66_000, 100_000))},
		{6, onDatagrams("datagram: hellos", true, nil, func(_ *hostile, s source) (all [][]byte) {
			for range 1 + s.IntN(100) {
				all = append(all, []byte("VFKT"))
			}
			return all
		})},
		{6, onDatagrams("datagram: no path", false, nil, valid)},
		{6, onDatagrams("datagram: file in place of the socket", true, func(p string) { _ = os.WriteFile(p, nil, 0o600) }, valid)},
		{6, onDatagrams("datagram: link in place of the socket", true, func(p string) { _ = os.Symlink("/dev/null", p) }, valid)},
		{6, onDatagrams("datagram: directory in place of the socket", true, func(p string) { _ = os.Mkdir(p, 0o700) }, valid)},
		{6, onDatagrams("datagram: nothing in place of the socket", true, func(string) {}, valid)},
		{6, onDatagrams("datagram: malformed packets", true, nil, func(h *hostile, s source) (all [][]byte) {
			for range 1 + s.IntN(30) {
				all = append(all, h.malformed(s))
			}
			return all
		})},
	}
}
