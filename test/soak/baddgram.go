// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// onDatagrams is a bad thing that is sent to the daemon's datagram socket, from a socket that bind makes.
func onDatagrams(name string, bind func(h *hostile, fd int) (path string), send func(h *hostile, s source) [][]byte) badThing {
	return badThing{name, func(h *hostile, _ context.Context, s source) int {
		f := lone(s)
		if f == nil {
			return 0
		}
		defer func() { _ = f[0].Close() }()
		fd := int(f[0].Fd())
		_ = unix.SetNonblock(fd, true)
		if bind != nil {
			if path := bind(h, fd); path != "" && s.IntN(4) != 0 { // some are left behind
				defer func() { _ = os.Remove(path) }()
			}
		}
		n := 0
		for _, b := range send(h, s) {
			var err error
			for range 50 {
				err = unix.Sendto(fd, b, 0, &unix.SockaddrUnix{Name: h.r.place.dgram()})
				if err != unix.EAGAIN {
					break
				}
				time.Sleep(sendPause)
			}
			if err == nil {
				n++
			}
		}
		return n
	}}
}

// named binds to a path, as clients do.
func named(h *hostile, fd int) string {
	path := h.r.place.newPath("h")
	_ = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	return path
}

// replaced binds to a path and puts something else there.
func replaced(put func(path string)) func(h *hostile, fd int) string {
	return func(h *hostile, fd int) string {
		path := named(h, fd)
		_ = os.Remove(path)
		put(path)
		return path
	}
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
		{10, onDatagrams("datagram: runts", named, lengths(0, 1, 2, 3, 4, 5, 12, 13))},
		{6, onDatagrams("datagram: too long", named, lengths(65_551, 66_000, 100_000))},
		{6, onDatagrams("datagram: hellos", named, func(_ *hostile, s source) (all [][]byte) {
			for range 1 + s.IntN(100) {
				all = append(all, []byte("VFKT"))
			}
			return all
		})},
		{6, onDatagrams("datagram: no name", nil, valid)},
		{6, onDatagrams("datagram: abstract name", func(_ *hostile, fd int) string {
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: "@soak-hostile"})
			return ""
		}, valid)},
		{6, onDatagrams("datagram: file in place of the socket", replaced(func(p string) { _ = os.WriteFile(p, nil, 0o600) }), valid)},
		{6, onDatagrams("datagram: link in place of the socket", replaced(func(p string) { _ = os.Symlink("/dev/null", p) }), valid)},
		{6, onDatagrams("datagram: directory in place of the socket", replaced(func(p string) { _ = os.Mkdir(p, 0o700) }), valid)},
		{6, onDatagrams("datagram: nothing in place of the socket", replaced(func(string) {}), valid)},
		{6, onDatagrams("datagram: malformed packets", named, func(h *hostile, s source) (all [][]byte) {
			for range 1 + s.IntN(30) {
				all = append(all, h.malformed(s))
			}
			return all
		})},
		{4, onDatagrams("datagram: the daemon's own socket as sender", func(h *hostile, fd int) string {
			path := filepath.Join(filepath.Dir(h.r.place.dgram()), "..", "dgram", "sock")
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: path}) // it is taken
			return ""
		}, valid)},
		{5, badThing{"datagram: stranger to a client", func(h *hostile, _ context.Context, s source) int {
			// A client that is not connected takes from anybody; a valid one of ours only shows that it survives.
			paths, _ := filepath.Glob(filepath.Join(h.r.place.dir, "c*"))
			if len(paths) == 0 {
				return 0
			}
			c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: paths[s.IntN(len(paths))], Net: "unixgram"})
			if err != nil {
				return 1 // it is connected to the daemon, and the system takes nothing from others
			}
			_ = c.Close()
			return 1
		}}},
	}
}
