// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// crowd is how many connections an attack has.
const crowd = 1000

// asUser runs f on a thread of that user's, who is in root's group.
func asUser(uid int, f func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if uid != os.Geteuid() {
			runtime.LockOSThread() // it ends with the goroutine, and the rights with it
			_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		}
		f()
	})
	wg.Wait()
}

// connect connects to the control socket as that user, however many want to at once.
func (p *process) connect(t *testing.T, n int, uid int) (conns []net.Conn) {
	t.Helper()
	asUser(uid, func() {
		for until := time.Now().Add(patience); len(conns) < n; {
			c, err := net.Dial("unix", p.sock+".d/control")
			switch {
			case err == nil:
				conns = append(conns, c)
			case !errors.Is(err, unix.EAGAIN) || time.Now().After(until): // the queue is full
				assert.NoError(t, err)
				return
			default:
				time.Sleep(time.Millisecond)
			}
		}
	})
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return conns
}

// TestControlHostile: whoever is at the control socket, and whatever he does there, frames go on, root is answered, and nothing is
// left behind.
func TestControlHostile(t *testing.T) {
	get := "GET /v1/status HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name string
		sent string
		slow bool // one byte at a time
	}{
		{name: "says nothing"},
		{name: "a head that does not end", sent: get + "X: " + strings.Repeat("x", 200), slow: true},
		{name: "a body that does not come", sent: "PUT /v1/log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"},
		{name: "does not read the answer", sent: get + "\r\n"},
		{name: "one request behind the other", sent: strings.Repeat(get+"\r\n", 100)},
		{name: "a large head", sent: get + "X: " + strings.Repeat("x", 1<<20)},
		{name: "a large body", sent: "PUT /v1/log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1<<20)},
		{name: "a body without end", sent: "PUT /v1/log-level HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 100)},
		{name: "frames", sent: string(bytes.Repeat(wire(0, 0xbb, "frame"), 50))},
		{name: "no HTTP at all", sent: "\x16\x03\x01\xff\xfe\r\n\r\n\x00"},
	} {
		for _, uid := range attackers() {
			t.Run(fmt.Sprintf("%s/user %d", c.name, uid), func(t *testing.T) {
				p := startReachable(t)
				tk := p.talkers(t)
				tk.check("before")
				var s status.Status
				_, err := p.ask(t, http.MethodGet, "/v1/status", nil, &s)
				require.NoError(t, err)
				before := p.base(t)
				conns := p.connect(t, crowd, uid)
				quit, began := make(chan struct{}), time.Now()
				var sending sync.WaitGroup
				sending.Go(func() { pour(conns, []byte(c.sent), c.slow, quit) })
				tk.check("during")
				carried := time.Since(began)
				began = time.Now()
				p.answersInTheEnd(t)
				t.Logf("first frames after %v, a status after %v more, %d descriptors instead of %d", carried.Round(time.Millisecond),
					time.Since(began).Round(time.Millisecond), p.files(t), before)
				assert.Less(t, p.files(t), before+100)
				close(quit)
				for _, c := range conns {
					_ = c.Close()
				}
				sending.Wait()
				tk.check("after")
				require.Eventually(t, func() bool { return p.files(t) <= before }, patience, 10*time.Millisecond)
				_, err = p.ask(t, http.MethodGet, "/v1/status", nil, &s)
				require.NoError(t, err)
				assert.Less(t, strings.Count(p.stderr.String(), "\n"), 100)
			})
		}
	}
}

// attackers are the daemon's user and, where that can be tried, another.
func attackers() []int {
	if os.Geteuid() == 0 {
		return []int{0, attacker}
	}
	return []int{os.Geteuid()}
}

// startReachable starts a daemon whose control socket another user in the group of this process can reach.
func startReachable(t *testing.T) *process {
	t.Helper()
	p := launch(t, "socket_vmnet2", filepath.Join(shortDir(t), "s"), "--socket-group="+ownGroup(t))
	p.ready(t)
	return p
}

// ownGroup is the name of this process's group.
func ownGroup(t *testing.T) string {
	t.Helper()
	g, err := user.LookupGroupId(strconv.Itoa(os.Getegid()))
	require.NoError(t, err)
	return g.Name
}

// pour sends b on all connections until quit: at once, as far as they take it, or byte by byte.
func pour(conns []net.Conn, b []byte, slow bool, quit chan struct{}) {
	step := len(b)
	if slow {
		step = 1
	}
	for ; len(b) > 0; b = b[min(step, len(b)):] {
		for _, c := range conns {
			_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond)) // and those who cannot go on, wait
			_, _ = c.Write(b[:min(step, len(b))])
			select {
			case <-quit:
				return
			default:
			}
		}
	}
}

// answersInTheEnd asks until there is an answer.
func (p *process) answersInTheEnd(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := p.ask(t, http.MethodGet, "/v1/status", nil, nil)
		return err == nil
	}, patience, 10*time.Millisecond)
}
