// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
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

// answersInTheEnd asks until there is an answer. Each refusal tells to try again.
func (p *process) answersInTheEnd(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		code, err := p.ask(t, http.MethodGet, "/v1/status", nil, nil)
		if err != nil && code != 0 {
			assert.Equal(t, http.StatusServiceUnavailable, code)
			assert.EqualError(t, err, "too many ask at the control socket at once: try again")
		}
		return err == nil
	}, patience, 10*time.Millisecond)
}

// TestControlCrowd: a thousand ask at once, and each gets an answer, if only that there are too many.
func TestControlCrowd(t *testing.T) {
	for _, uid := range attackers() {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			p := startReachable(t)
			tk := p.talkers(t)
			before := p.base(t)
			conns := p.connect(t, crowd, uid)
			var answered, busy, none atomic.Int32
			var wg sync.WaitGroup
			for _, c := range conns {
				wg.Go(func() {
					_ = c.SetDeadline(time.Now().Add(patience))
					_, _ = io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
					b, _ := io.ReadAll(c)
					switch {
					case bytes.HasPrefix(b, []byte("HTTP/1.1 200 OK\r\n")):
						answered.Add(1)
					case bytes.HasPrefix(b, []byte("HTTP/1.1 503 ")):
						busy.Add(1)
					default: // its place was taken: it had been there for long without a request
						none.Add(1)
						assert.Empty(t, b)
					}
				})
			}
			tk.check("during")
			p.answersInTheEnd(t)
			wg.Wait()
			t.Logf("%d answered, %d told to try again, %d gave their places away", answered.Load(), busy.Load(), none.Load())
			assert.Positive(t, answered.Load())
			tk.check("after")
			require.Eventually(t, func() bool { return p.files(t) <= before }, patience, 10*time.Millisecond)
		})
	}
}

// TestThousandAskers compares what two clients that talk get, and what the daemon spends on it, with nobody at the control
// socket and with a thousand who ask all the time.
func TestThousandAskers(t *testing.T) {
	p := start(t)
	tk := p.talkers(t)
	const rounds, frames, alone = 3, 200_000, 300
	var quiet, loud []float64         // frames a second
	var spent, beside []time.Duration // by the daemon, for a frame
	var asked, refused atomic.Int64
	var took, during float64 // of the loud rounds: seconds, questions answered either way
	began := p.cpu(t)
	for range alone {
		code, _ := p.ask(t, http.MethodGet, "/v1/clients", nil, nil)
		require.Equal(t, http.StatusOK, code)
	}
	answer := (p.cpu(t) - began) / alone // and what it takes to accept and to refuse is less
	for range rounds {
		began = p.cpu(t)
		quiet = append(quiet, tk.carry(t, frames))
		spent = append(spent, (p.cpu(t)-began)/frames)
		quit := make(chan struct{})
		var wg sync.WaitGroup
		for range crowd {
			wg.Go(func() {
				for {
					if code, _ := p.ask(t, http.MethodGet, "/v1/clients", nil, nil); code == http.StatusOK {
						asked.Add(1)
					} else {
						refused.Add(1)
					}
					select {
					case <-quit:
						return
					case <-time.After(100 * time.Millisecond): // ten times a second: the guests need a processor too
					}
				}
			})
		}
		before := asked.Load()
		require.Eventually(t, func() bool { return asked.Load() > before }, patience, time.Millisecond)
		began, before = p.cpu(t), asked.Load()+refused.Load()
		start := time.Now()
		loud = append(loud, tk.carry(t, frames))
		took += time.Since(start).Seconds()
		beside = append(beside, (p.cpu(t)-began)/frames)
		during += float64(asked.Load() + refused.Load() - before)
		close(quit)
		wg.Wait()
	}
	for _, list := range [][]time.Duration{spent, beside} {
		slices.Sort(list)
	}
	slices.Sort(quiet)
	slices.Sort(loud)
	t.Logf("the daemon's CPU time for a frame: %v alone, %v beside them, who had %.0f answers and refusals a second at %v each",
		spent[0], beside[0], during/took, answer)
	t.Logf("frames a second: %.0f alone, %.0f beside %d who ask (%d answers, %d refusals): %.2f", quiet[rounds/2], loud[rounds/2],
		crowd, asked.Load(), refused.Load(), loud[rounds/2]/quiet[rounds/2])
	assert.Positive(t, asked.Load())
	assert.Greater(t, loud[rounds-1]/quiet[0], 0.05, "frames go on; the test's own thousand take most of the rest")
}

// carriedRounds counts the calls of carry.
var carriedRounds atomic.Int64

// carry sends n frames from a to b and returns how many arrived in a second.
func (tk talking) carry(t *testing.T, n int) float64 {
	t.Helper()
	require.NoError(t, tk.a.SetDeadline(time.Now().Add(6*patience)))
	require.NoError(t, tk.b.SetDeadline(time.Now().Add(6*patience)))
	one := wire(tk.b.mac, tk.a.mac, strings.Repeat("x", 1486))
	last := wire(tk.b.mac, tk.a.mac, fmt.Sprintf("end of %6d", carriedRounds.Add(1))) // one of the round before may still be on its way
	batch := bytes.Repeat(one, 100)
	began := time.Now()
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() {
		for range n / 100 {
			if _, err := tk.a.Write(batch); err != nil {
				assert.NoError(t, err)
				return
			}
		}
		for { // the first of them may find the queue full
			_, _ = tk.a.Write(last)
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	got, err := tk.b.until(last)
	took := time.Since(began)
	close(ended)
	require.NoError(t, err)
	wg.Wait()
	return float64(got/len(one)) / took.Seconds()
}

// until reads until a frame, and returns how many bytes came before it.
func (c *client) until(end []byte) (n int, err error) {
	buf, tail := make([]byte, 256<<10), []byte(nil)
	for {
		m, err := c.Read(buf)
		if err != nil {
			return n, err
		}
		n += m
		tail = append(tail, buf[max(0, m-64):m]...)
		tail = tail[max(0, len(tail)-64):]
		if bytes.HasSuffix(tail, end) {
			return n, nil
		}
	}
}

// TestControlStops: a daemon that is told to stop does so in time, whoever is at the control socket.
func TestControlStops(t *testing.T) {
	p := start(t)
	conns := p.connect(t, 50, os.Geteuid())
	pour(conns, []byte("GET /v1/status HTTP/1.1\r\nHost"), false, make(chan struct{}))
	code, took := p.signal(t, syscall.SIGTERM)
	assert.Zero(t, code)
	assert.Less(t, took, stopTime)
}

// TestControlUpgradeBesideCrowd: an upgrade is not held up by those who only sit there, and nobody of them is served twice.
func TestControlUpgradeBesideCrowd(t *testing.T) {
	p := start(t)
	tk := p.talkers(t)
	p.connect(t, 60, os.Geteuid())
	require.Eventually(t, func() bool {
		code, err := p.ask(t, http.MethodPost, "/v1/upgrade", nil, nil)
		return err == nil && code == http.StatusOK
	}, patience, 50*time.Millisecond)
	tk.check("after the upgrade")
	var l control.Level
	_, err := p.ask(t, http.MethodGet, "/v1/log-level", nil, &l)
	require.NoError(t, err)
	assert.Equal(t, "info", l.Level)
}
