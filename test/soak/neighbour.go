// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// Neighbours are users of the machine: a member of the socket's group, which all hostile clients of streams are, and a stranger. Both
// are the daemon's own user where the run may not change users.
const (
	member   = 65534
	stranger = 65533
)

// othersAreOthers: the neighbours are users of their own.
var othersAreOthers = runtime.GOOS == "linux" && os.Getuid() == 0

// askOne is a request that is answered at once.
const askOne = "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n"

// badNeighbours are what is tried on the daemon by other users.
func badNeighbours() []choice[badThing] {
	return []choice[badThing]{
		{10, badThing{"member: control connections that are held", func(h *hostile, ctx context.Context, s source) int {
			n := 10 + s.IntN(100)
			for range n {
				if c := h.dial(ctx, ".d/control"); c != nil {
					defer func() { _ = c.Close() }()
					_, _ = io.WriteString(c, askOne[:s.IntN(len(askOne))])
				}
			}
			h.answered(ctx)
			return n
		}}},
		{10, on(".d/control", "member: answers that are not read", func(h *hostile, ctx context.Context, _ source, c *net.UnixConn) int {
			_ = c.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, strings.Repeat("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", 200))
			h.answered(ctx)
			return 200
		})},
		{10, on(".d/control", "member: what is the owner's", (*hostile).forbidden)},
		{10, badThing{"stranger: sockets and files", (*hostile).strange}},
		{10, badThing{"stranger: half requests to the metrics", func(h *hostile, ctx context.Context, s source) int {
			n := 1 + s.IntN(80)
			for range n {
				if c, err := net.DialTimeout("tcp", h.r.metrics, time.Second); err == nil {
					defer func() { _ = c.Close() }()
					_, _ = io.WriteString(c, askOne[:s.IntN(len(askOne))])
				}
			}
			sleep(ctx, s.between(0, time.Second))
			return n
		}}},
	}
}

// answered checks that the owner is answered in time, whatever others do.
func (h *hostile) answered(ctx context.Context) {
	life, _ := h.r.daemon.wait(ctx)
	c, err := net.Dial("unix", h.r.socket+".d/control")
	if err == nil {
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(h.r.o.Patience))
		if _, err = io.WriteString(c, askOne); err == nil {
			_, err = c.Read(make([]byte, 1))
		}
	}
	if err != nil && !h.r.daemon.excused(life) && ctx.Err() == nil {
		h.r.fail(refused, "the owner's question is not answered: %v", err)
	}
}

// forbidden asks for what is only root's and the daemon's user's.
func (h *hostile) forbidden(_ context.Context, s source, c *net.UnixConn) int {
	what := []string{"POST /v1/upgrade", fmt.Sprintf("DELETE /v1/clients/%d", s.IntN(100)), "PUT /v1/log-level", "POST /v1/capture"}[s.IntN(4)]
	if !othersAreOthers {
		return 0
	}
	_, _ = io.WriteString(c, what+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	answer := make([]byte, 100)
	if n, err := c.Read(answer); err == nil && !strings.Contains(string(answer[:n]), " 403 ") {
		h.r.fail(tolerated, "a member of the group asked for %s, and the answer is %q", what, answer[:n])
	}
	return 1
}

// strange tries what no file's mode allows a stranger.
func (h *hostile) strange(_ context.Context, s source) int {
	if !othersAreOthers {
		return 0
	}
	files := []string{h.r.socket, h.r.socket + ".d", h.r.daemon.binary, filepath.Join(h.r.o.Dir, "pid"), filepath.Join(h.r.o.Dir, "state")}
	for _, name := range []string{"control", "attach", "adopt", "dgram"} {
		files = append(files, filepath.Join(h.r.socket+".d", name))
	}
	path := files[s.IntN(len(files))]
	lab.As(stranger, stranger, func() {
		for what, try := range map[string]func() error{
			"connect to":                 func() error { _, err := net.Dial("unix", path); return err },
			"send to":                    func() error { _, err := net.Dial("unixgram", path); return err },
			"remove":                     func() error { return os.Remove(path) },
			"rename":                     func() error { return os.Rename(path, path+".x") },
			"open":                       func() error { return os.Chmod(path, 0o777) },
			"put a link in the place of": func() error { return os.Symlink("/dev/null", path+".lock") },
		} {
			if try() == nil {
				h.r.fail(tolerated, "a stranger could %s %s", what, path)
			}
		}
	})
	return 6
}
