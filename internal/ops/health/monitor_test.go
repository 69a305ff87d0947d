// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A live is a daemon in a bubble: its clients are what the Monitor was told of.
type live struct {
	m *health.Monitor

	log lines

	mu    sync.Mutex
	st    status.Status
	waits map[uint64]time.Time
	looks int
}

func newLive(t *testing.T, clients int) *live {
	l := &live{st: newWorld(t, clients).Status, waits: map[uint64]time.Time{}}
	l.m = health.New(health.Options{Log: slog.New(slog.NewTextHandler(&l.log, nil)), Status: l.status})
	l.m.Look()
	return l
}

func (l *live) status() status.Status {
	l.mu.Lock()
	l.looks++
	st := l.st
	st.Now = time.Now().UTC()
	st.Clients = append([]status.Client{}, st.Clients...)
	for i := range st.Clients {
		c := &st.Clients[i]
		if since, ok := l.waits[c.ID]; ok {
			c.DHCP.Waiting = max(time.Since(since), time.Millisecond).Seconds()
			c.DHCP.Discovers = 2
		}
	}
	l.mu.Unlock()
	st.Health = l.m.Problems(st)
	return st
}

// asks and answered are what a guest and its server do.
func (l *live) asks(id uint64) {
	l.mu.Lock()
	if _, ok := l.waits[id]; !ok {
		l.waits[id] = time.Now()
	}
	since := l.waits[id]
	l.mu.Unlock()
	l.m.Seen(id, watch.Snapshot{MAC: mac(id), DHCP: watch.DISCOVER, Waiting: since, Asked: time.Now()})
}

func (l *live) answered(id uint64) {
	l.mu.Lock()
	delete(l.waits, id)
	l.mu.Unlock()
	l.m.Seen(id, watch.Snapshot{MAC: mac(id), DHCP: watch.DISCOVER})
}

func (l *live) lines(of string) int { return strings.Count(l.log.String(), of) }

// looked is how often the Monitor has asked.
func (l *live) looked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func mac(id uint64) net.HardwareAddr {
	return binary.BigEndian.AppendUint64(nil, 0x525400000000|id)[2:]
}

const waitLine = "a guest gets no address: no server answers its DHCP requests"

func TestNoAnswerIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 2)
		defer l.m.Close()
		l.asks(1)
		time.Sleep(4900 * time.Millisecond)
		l.asks(1)
		assert.Zero(t, l.lines("WARN"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, l.lines(waitLine), l.log.String())
		assert.Equal(t, 1, l.lines("clients=[1] "))
		assert.Contains(t, l.log.String(), "the embedded network's gateway does not answer, though it has addresses.")
		for range 100 {
			time.Sleep(4 * time.Second)
			l.asks(1)
			assert.Len(t, l.status().Health, 1)
		}
		assert.Equal(t, 1, l.lines("WARN"), "one for the whole of it")
		l.answered(1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, l.status().Health)
		assert.Equal(t, 1, l.lines("the guest waits for no address any more"))

		l.asks(1) // another episode
		time.Sleep(6 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, l.lines(waitLine))
		l.mu.Lock()
		l.st.Clients = l.st.Clients[1:]
		delete(l.waits, 1)
		l.mu.Unlock()
		l.m.Gone(1)
		assert.Empty(t, l.status().Health, "gone")
	})
}

func TestAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 1)
		defer l.m.Close()
		for range 20 {
			l.asks(1)
			time.Sleep(3 * time.Second)
			l.answered(1)
			time.Sleep(4 * time.Second)
		}
		assert.Empty(t, l.log.String())
	})
}

func TestIdleHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 2)
		defer l.m.Close()
		for id := range uint64(2) {
			l.m.Seen(id+1, watch.Snapshot{MAC: mac(id + 1), IP: netip.MustParseAddr("192.168.105.9").Next()})
		}
		time.Sleep(time.Minute)
		looks := l.looked()
		assert.NotZero(t, looks)
		for range 1000 {
			time.Sleep(time.Minute)
			l.m.Seen(1, watch.Snapshot{MAC: mac(1), IP: netip.MustParseAddr("192.168.105.9").Next(), Claimed: time.Now()})
		}
		assert.Equal(t, looks, l.looked(), "the same again is no news")
	})
}

func TestDuplicateIsWarnedOfWithoutAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 2)
		defer l.m.Close()
		ip := netip.MustParseAddr("192.168.105.50")
		say := func(id uint64) {
			l.mu.Lock()
			l.st.Clients[id-1].IP, l.st.Clients[id-1].IPSeen = ip, time.Now()
			l.mu.Unlock()
			l.m.Seen(id, watch.Snapshot{MAC: mac(id), IP: ip, Claimed: time.Now()})
		}
		say(1)
		time.Sleep(10 * time.Minute)
		say(2)
		time.Sleep(time.Minute)
		assert.Zero(t, l.lines("WARN"), "the first may be off")
		say(1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, l.lines("two guests use one IP address"))
	})
}

// TestHostile has a guest claim and ask with every frame, for a quarter of an hour.
func TestHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 3)
		defer l.m.Close()
		r := rand.New(rand.NewPCG(1, 2))
		frames := 0
		const rounds = 300 // of three seconds
		for range rounds {
			for range 1000 {
				var b [4]byte
				binary.BigEndian.PutUint32(b[:], r.Uint32())
				s := watch.Snapshot{MAC: mac(uint64(b[0])), IP: netip.AddrFrom4(b), Claimed: time.Now()}
				if b[1]&1 == 0 {
					s.Waiting, s.Asked = time.Now(), time.Now()
				}
				l.m.Seen(1+uint64(b[2])%3, s)
				frames++
			}
			l.mu.Lock()
			l.st.Clients[0].IP = netip.AddrFrom4([4]byte{192, 168, 105, byte(1 + frames/1000%2)})
			if l.waits[2] = time.Now().Add(-6 * time.Second); frames/1000%2 == 0 {
				delete(l.waits, 2)
			}
			l.mu.Unlock()
			time.Sleep(3 * time.Second)
		}
		assert.LessOrEqual(t, l.looked(), 3*rounds+10, "one a second at most")
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, 1)
		synctest.Wait()
		l.asks(1)
		l.m.Close()
		l.m.Close()
		l.asks(1)
		l.m.Look()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, l.looked())
		assert.Len(t, l.status().Health, 1, "a question is answered")
	})
}

// TestAfterUpgrade: the program before has told of a guest that waits.
func TestAfterUpgrade(t *testing.T) {
	w := newWorld(t, 2)
	w.Now = time.Now().UTC()
	w.Clients[0].DHCP.Waiting = 60
	w.Clients[1].DHCP.Waiting = 3
	w.look(t)
	assert.Empty(t, w.log.String())
	w.after(5 * time.Second)
	assert.Equal(t, []uint64{1, 2}, w.look(t)[status.NoDHCPAnswer].Clients)
	assert.Contains(t, w.log.String(), "clients=[2] ")
	assert.NotContains(t, w.log.String(), "clients=[1")
}

// TestOneEpisode: what is in between does not begin it anew.
func TestOneEpisode(t *testing.T) {
	w := newWorld(t, 1)
	w.after(time.Hour * 24 * 365 * 10) // the Monitor has begun before
	w.Clients[0].DHCP.Waiting = 5
	w.look(t)
	for _, state := range []string{status.NetworkStarting, status.NetworkRunning, status.NetworkFailed, status.NetworkRunning} {
		w.after(2 * time.Second)
		w.Network.State = state
		w.look(t)
	}
	assert.Equal(t, 1, strings.Count(w.log.String(), "level=WARN"))
	w.Clients[0].DHCP.Waiting = 0
	w.look(t)
	assert.Equal(t, 1, strings.Count(w.log.String(), "the guest waits for no address any more"))
	w.look(t)
	w.Clients[0].DHCP.Waiting = 5
	w.after(2 * time.Second)
	w.look(t)
	assert.Equal(t, 2, strings.Count(w.log.String(), "level=WARN"))
}
