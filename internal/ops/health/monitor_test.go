// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// status is the daemon's, in a bubble: by its clock, with the guest that waits.
func (w *world) status() status.Status {
	w.mu.Lock()
	w.looks++
	st := w.Status
	st.Now = time.Now().UTC()
	st.Clients = append([]status.Client{}, st.Clients...)
	if !w.waits.IsZero() {
		st.Clients[0].DHCP = status.ClientDHCP{Waiting: max(time.Since(w.waits), time.Millisecond).Seconds(), Discovers: 2}
	}
	w.mu.Unlock()
	st.Health = w.m.Problems(st)
	return st
}

// asks and answered are what the guest of client 1 and its server do.
func (w *world) asks() {
	w.mu.Lock()
	if w.waits.IsZero() {
		w.waits = time.Now()
	}
	since := w.waits
	w.mu.Unlock()
	w.m.Seen(1, watch.Snapshot{MAC: mac(1), DHCP: watch.DISCOVER, Waiting: since, Asked: time.Now()})
}

func (w *world) answered() {
	w.mu.Lock()
	w.waits = time.Time{}
	w.mu.Unlock()
	w.m.Seen(1, watch.Snapshot{MAC: mac(1), DHCP: watch.DISCOVER})
}

// said is how often the log has a text.
func (w *world) said(text string) int { return strings.Count(w.log.String(), text) }

// looked is how often the Monitor has asked.
func (w *world) looked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// live runs a test in a bubble, on a daemon whose Monitor looks by itself.
func live(t *testing.T, clients int, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clients)
		w.m.Look()
		test(t, w)
	})
}

func mac(id uint64) net.HardwareAddr {
	return binary.BigEndian.AppendUint64(nil, 0x525400000000|id)[2:]
}

const waitLine = "a guest gets no address: no server answers its DHCP requests"

func TestNoAnswerIsWarnedOfOnce(t *testing.T) {
	live(t, 2, func(t *testing.T, w *world) {
		w.asks()
		time.Sleep(4900 * time.Millisecond)
		w.asks()
		assert.Zero(t, w.said("WARN"))
		time.Sleep(3500 * time.Millisecond) // it looks after 7 seconds, or 8
		synctest.Wait()
		assert.Equal(t, 1, w.said(waitLine), w.log.String())
		assert.Equal(t, 1, w.said("clients=[1] "))
		assert.Contains(t, w.log.String(), "the embedded network's gateway does not answer, though it has addresses.")
		for range 100 {
			time.Sleep(4 * time.Second)
			w.asks()
			assert.Len(t, w.status().Health, 1)
		}
		assert.Equal(t, 1, w.said("WARN"), "one for the whole of it")
		w.answered()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, w.status().Health)
		assert.Equal(t, 1, w.said("the guest waits for no address any more"))

		w.asks() // another episode
		time.Sleep(8 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, w.said(waitLine))
		w.mu.Lock()
		w.Clients = w.Clients[1:]
		w.waits = time.Time{}
		w.mu.Unlock()
		w.m.Gone(1)
		assert.Empty(t, w.status().Health, "gone")
	})
}

func TestIdleHasNoTimer(t *testing.T) {
	live(t, 2, func(t *testing.T, w *world) {
		for id := range uint64(2) {
			w.m.Seen(id+1, watch.Snapshot{MAC: mac(id + 1), IP: netip.MustParseAddr("192.168.105.9").Next()})
		}
		time.Sleep(time.Minute)
		looks := w.looked()
		assert.Positive(t, looks)
		assert.LessOrEqual(t, looks, 8, "after pauses that double")
		for range 1000 {
			time.Sleep(time.Minute)
			w.m.Seen(1, watch.Snapshot{MAC: mac(1), IP: netip.MustParseAddr("192.168.105.9").Next(), Claimed: time.Now()})
		}
		assert.Equal(t, looks, w.looked(), "the same again is no news")
	})
}

func TestDuplicateIsWarnedOfWithoutAsking(t *testing.T) {
	live(t, 2, func(t *testing.T, w *world) {
		ip := netip.MustParseAddr("192.168.105.50")
		say := func(id uint64) {
			w.mu.Lock()
			w.Clients[id-1].IP, w.Clients[id-1].IPSeen = ip, time.Now()
			w.mu.Unlock()
			w.m.Seen(id, watch.Snapshot{MAC: mac(id), IP: ip, Claimed: time.Now()})
		}
		say(1)
		time.Sleep(10 * time.Minute)
		say(2)
		time.Sleep(time.Minute)
		assert.Zero(t, w.said("WARN"), "the first may be off")
		say(1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, w.said("two guests use one IP address"))
	})
}

// TestHostile has guests claim and ask with every frame, for a quarter of an hour.
func TestHostile(t *testing.T) {
	live(t, 3, func(t *testing.T, w *world) {
		r := rand.New(rand.NewPCG(1, 2))
		const seconds = 900
		for range 100 * seconds {
			ip := [4]byte(binary.BigEndian.AppendUint32(nil, r.Uint32()))
			s := watch.Snapshot{MAC: mac(uint64(ip[0])), IP: netip.AddrFrom4(ip), Claimed: time.Now()}
			if ip[1]&1 == 0 {
				s.Waiting, s.Asked = time.Now(), time.Now()
			}
			w.m.Seen(1+uint64(ip[2])%3, s)
			time.Sleep(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, w.looked(), seconds+10, "one a second at most")
	})
}

func TestClose(t *testing.T) {
	live(t, 1, func(t *testing.T, w *world) {
		synctest.Wait()
		w.asks()
		w.m.Close()
		w.m.Close()
		w.asks()
		w.m.Look()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, w.looked())
		assert.Len(t, w.status().Health, 1, "a question is answered")
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
	assert.Equal(t, 1, w.said("level=WARN"))
	w.Clients[0].DHCP.Waiting = 0
	w.look(t)
	assert.Equal(t, 1, w.said("the guest waits for no address any more"))
	w.look(t)
	w.Clients[0].DHCP.Waiting = 5
	w.after(2 * time.Second)
	w.look(t)
	assert.Equal(t, 2, w.said("level=WARN"))
}
