// SPDX-License-Identifier: Apache-2.0

//go:build linux

package unixgram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
)

// TestCharge compares what is counted for a datagram with what the system charges.
func TestCharge(t *testing.T) {
	l := newLab(t, nil)
	p := l.connected("c")
	p.send(testFrame(60, 1))
	s := l.session(p.path)
	for _, n := range []int{
		14, 60, 191, 192, 193, 448, 449, 704, 705, 1000, 1514, 1728, 1729, 2000, 3776, 3777, 7872, 7873, 9014, 15000, 15936, 16000, 16064,
		16065, 16384, 20000, 32767, 32768, 32769, 40000, 61440, 65535, mmsg.MaxLen,
	} {
		before := l.shared.outstanding()
		s.link.Deliver(batchOf(testFrame(n, 1)))
		charged := l.shared.outstanding() - before
		require.Positive(t, charged)
		assert.GreaterOrEqual(t, charge(n), charged, "%d bytes", n)
		assert.LessOrEqual(t, charge(n), 2*charged+1024, "%d bytes: too careful", n)
		require.Len(t, p.recv(), n)
	}
	require.Eventually(t, func() bool { return l.shared.outstanding() == 0 }, patience, time.Millisecond)
}

// TestSharesLeaveRoom: however many clients come one after another and never read, there is room for the next.
func TestSharesLeaveRoom(t *testing.T) {
	for _, size := range []int{1 << 20, 8 << 20} {
		sum := 0
		for n := 1; n <= 256; n++ {
			sum += share(size, n)
			assert.Less(t, sum, size*3/4, "%d clients", n)
			assert.LessOrEqual(t, share(size, n+1), share(size, n))
		}
	}
}

// shrink gives the shared socket the send buffer of a daemon without privileges.
func (l *lab) shrink(size int) {
	l.t.Helper()
	require.NoError(l.t, unix.SetsockoptInt(l.shared.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, size/2))
	n, err := unix.GetsockoptInt(l.shared.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	require.NoError(l.t, err)
	require.Equal(l.t, size, n)
	l.shared.size = size
}

// A counter counts frames that were received.
type counter struct {
	mu   sync.Mutex
	cond *sync.Cond
	n    int
	err  error // why it has ended, io.EOF when all have come
}

// count reads n frames, which must be in order.
func (p *peer) count(n int) *counter {
	c := new(counter)
	c.cond = sync.NewCond(&c.mu)
	go func() {
		buf := make([]byte, 2048)
		for i := range n {
			_ = p.SetReadDeadline(time.Now().Add(patience))
			k, err := p.Read(buf)
			if err == nil && (k != ethernetLen || int(binary.BigEndian.Uint32(buf[14:])) != i) {
				err = fmt.Errorf("frame %d: %d bytes, number %d", i, k, binary.BigEndian.Uint32(buf[14:]))
			}
			c.mu.Lock()
			c.n++
			if c.err = err; err == nil && c.n == n {
				c.err = io.EOF
			}
			if c.err != nil || c.n%16 == 0 {
				c.cond.Signal()
			}
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// wait waits until n frames have come, or the counter has ended.
func (c *counter) wait(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n < n && c.err == nil {
		c.cond.Wait()
	}
	return c.err
}

// pump sends n numbered frames to s, a batch of 16 each, never more than window ahead of the client.
func pump(s *session, c *counter, n, window int) error {
	var frames [][]byte
	for i := range n {
		frames = append(frames, testFrame(ethernetLen, i))
		if len(frames) < 16 && i < n-1 {
			continue
		}
		if err := c.wait(i + 1 - window); err != nil {
			return err
		}
		s.link.Deliver(batchOf(frames...))
		frames = frames[:0]
	}
	if err := c.wait(n); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// fill sends to a client that does not read until nothing more goes out.
func fill(t *testing.T, s *session, size int) {
	t.Helper()
	for range 2000 {
		s.link.Deliver(batchOf(testFrame(size, 0)))
	}
	require.Positive(t, s.link.Stats().Queued+int(s.link.Stats().DropQueueFull))
}

// TestDeafClients: clients of the shared socket that never read leave the others alone.
func TestDeafClients(t *testing.T) {
	tests := []struct {
		name   string
		size   int // of the send buffer; 0 = what there is
		deaf   int
		length int // of the frames that the deaf ones do not read
		late   bool
	}{
		{"none", 0, 0, ethernetLen, false},
		{"none, small buffer", 425984, 0, ethernetLen, false},
		{"seven", 0, 7, ethernetLen, false},
		{"seven, small buffer", 425984, 7, ethernetLen, false},
		{"seven, default buffer", 212992, 7, ethernetLen, false},
		{"seven, long frames", 425984, 7, mmsg.MaxLen, false},
		{"one, comes first", 425984, 1, ethernetLen, true},
		{"thirty, each fills its share before the next comes", 0, 30, ethernetLen, true},
		{"thirty, small buffer", 425984, 30, ethernetLen, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, func(_ *lab, o *Options) { o.QueueSize = 512 << 10 })
			if tt.size > 0 {
				l.shrink(tt.size)
			}
			var deaf []*session
			join := func() *session {
				p := l.connected(fmt.Sprint("deaf", len(deaf)))
				p.send([]byte("VFKT"))
				s := l.session(p.path)
				deaf = append(deaf, s)
				return s
			}
			var healthy *session
			var p *peer
			joinHealthy := func() {
				p = l.connected("healthy")
				p.send([]byte("VFKT"))
				healthy = l.session(p.path)
			}
			if tt.late {
				for range tt.deaf {
					fill(t, join(), tt.length)
				}
				joinHealthy()
			} else {
				joinHealthy()
				for range tt.deaf {
					join()
				}
				for _, s := range deaf {
					fill(t, s, tt.length)
				}
			}
			const n = 8000
			c := p.count(n)
			began := time.Now()
			require.NoError(t, pump(healthy, c, n, 128), "%+v", healthy.link.Stats())
			st := healthy.link.Stats()
			t.Logf("%v per frame, %d dropped, buffer %d of %d", time.Since(began)/n, st.DropQueueFull, l.shared.outstanding(), l.shared.size)
			assert.Zero(t, st.DropQueueFull, "at most 128 frames are under way")
			for _, s := range deaf {
				assert.NoError(t, notEnded(s))
			}
		})
	}
}

func notEnded(s *session) error {
	select {
	case <-s.done:
		return fmt.Errorf("ended: %w", s.err)
	default:
		return nil
	}
}

// TestLeftovers: a client that leaves unread frames behind while its socket stays is counted until it is gone.
func TestLeftovers(t *testing.T) {
	l := newLab(t, nil)
	a, b := l.connected("a"), l.connected("b")
	a.send(testFrame(60, 1))
	b.send(testFrame(60, 1))
	for _, p := range []*peer{a, b} {
		s := l.session(p.path)
		s.link.Deliver(batchOf(testFrame(60, 1)))
		s.link.Shutdown(link.DrainOne)
		_ = s.waitEnd(t)
	}
	assert.EqualValues(t, 2, l.shared.accounts.Load())
	l.shared.sweep()
	assert.EqualValues(t, 2, l.shared.accounts.Load(), "both have something unread")
	_ = a.recv()
	l.shared.sweep()
	assert.EqualValues(t, 1, l.shared.accounts.Load(), "one has read it")
	require.NoError(t, b.Close())
	l.shared.sweep()
	assert.EqualValues(t, 0, l.shared.accounts.Load(), "the other one has gone")
}

// TestSharesOfUsers: one user's clients, however many, take little from another's.
func TestSharesOfUsers(t *testing.T) {
	s := &shared{size: 8 << 20, users: map[uint32]*user{}, diags: diagnoser{failed: true}}
	target := func(uid uint32) *Target { return &Target{uid: uid} }
	var all []*account
	used := 0
	var err error
	for n := 0; err == nil; n++ { // each takes all that it may
		var a account
		if a, err = s.open(target(victim)); err != nil {
			break
		}
		limit := a.limit(share(s.size, int(s.accounts.Load())))
		assert.GreaterOrEqual(t, limit, 0)
		a.charge(limit)
		used += limit
		all = append(all, &a)
	}
	require.ErrorIs(t, err, errTooMany)
	assert.Len(t, all, maxUserAccounts)
	assert.EqualValues(t, userClients, s.accounts.Load())
	assert.Less(t, used, s.size*3/4)
	assert.EqualValues(t, used, all[0].user.used.Load())

	other, err := s.open(target(attacker))
	require.NoError(t, err)
	assert.EqualValues(t, userClients+1, s.accounts.Load())
	assert.Equal(t, share(s.size, userClients+1), other.limit(share(s.size, int(s.accounts.Load()))))
	s.end(&other)
	for i, a := range all {
		s.end(a)
		assert.EqualValues(t, min(userClients, len(all)-1-i), s.accounts.Load())
	}
	assert.Empty(t, s.users)
}
