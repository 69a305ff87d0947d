// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A toy is a learning bridge of three guests that can be told to misbehave.
type toy struct {
	l       *Ledger
	now     time.Duration
	conns   []*Conn
	summary []Summary
	table   map[[6]byte]int
	sent    int
	fault   func(n int, to *[]delivery) // of the nth frame
}

// A delivery is a frame for a guest.
type delivery struct {
	to    int
	frame []byte
}

func newToy(o Options) *toy {
	y := &toy{table: map[[6]byte]int{}}
	o.Now = func() time.Duration { y.now += time.Millisecond; return y.now }
	y.l = New(o)
	for i := range 3 {
		y.conns = append(y.conns, y.l.Open(uint32(i), mac(i), "toy"))
		y.summary = append(y.summary, Summary{Drops: map[string]uint64{}})
	}
	y.l.Begin()
	return y
}

func mac(i int) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, byte(i + 1)} }

func (y *toy) to(i int) Target { return y.conns[i].Target() }

// send has guest from send a frame, and delivers it by the rules, unless the fault changes that.
func (y *toy) send(from int, to Target, n int) {
	c := y.conns[from]
	f := c.Compose(nil, to, n)
	c.Seen.SentFrames.Add(1)
	c.Seen.SentBytes.Add(uint64(len(f)))
	y.summary[from].FramesToNet++
	y.summary[from].BytesToNet += uint64(len(f))
	y.table[[6]byte(f[6:12])] = from
	var out []delivery
	owner, known := y.table[[6]byte(f[:6])]
	for i := range y.conns {
		if i != from && (!known || i == owner) {
			out = append(out, delivery{i, bytes.Clone(f)})
		}
	}
	y.sent++
	if y.fault != nil {
		y.fault(y.sent, &out)
	}
	for _, d := range out {
		y.summary[d.to].FramesToClient++
		y.summary[d.to].BytesToClient += uint64(len(d.frame))
		y.conns[d.to].Receive(d.frame)
	}
}

// talk is 90 frames, all of which are delivered rightly by a toy without fault. From the fourth on the addresses are known.
func (y *toy) talk() {
	for i := range 3 {
		y.send(i, Broadcast, 100)
	}
	for n := range 29 {
		for i := range 3 {
			y.send(i, y.to((i+1)%3), 64+n*50)
		}
	}
}

// end settles everything.
func (y *toy) end() {
	for i, c := range y.conns {
		c.Seen.AllSent.Store(true)
		c.Seen.AllReceived.Store(true)
		c.Finish()
		y.l.Settle(c, &y.summary[i])
		y.l.Gone(c)
	}
	y.l.End()
	y.l.EndLife()
}

// only checks that there are violations of one kind, and no others.
func (y *toy) only(t *testing.T, want ...Kind) {
	t.Helper()
	var got []Kind
	for k, n := range y.l.Counts() {
		assert.Positive(t, n)
		got = append(got, k)
	}
	assert.ElementsMatch(t, want, got, "%v", y.l.Violations())
}

func TestFaultless(t *testing.T) {
	y := newToy(Options{})
	y.talk()
	y.end()
	y.only(t)
	st := &y.l.Stats
	assert.Equal(t, []uint64{93, 87, 0, 3, 3}, []uint64{st.Frames.Load(), st.Owned.Load(), st.Flooded.Load(), st.Settled.Load(), st.GapConns.Load()})
}

// TestFaults: each kind of fault, once in 90 frames, is found and called by its name.
func TestFaults(t *testing.T) {
	const when = 40
	for name, c := range map[string]struct {
		fault func(y *toy, out *[]delivery)
		want  []Kind
	}{
		"to one who does not own it as well": {func(_ *toy, out *[]delivery) {
			*out = append(*out, delivery{((*out)[0].to + 1) % 3, (*out)[0].frame})
		}, []Kind{Misdelivered, Returned}}, // one of them is the sender
		"to a wrong one instead": {func(y *toy, out *[]delivery) {
			from := y.table[[6]byte((*out)[0].frame[6:12])]
			(*out)[0].to = 3 - from - (*out)[0].to
		}, []Kind{Misdelivered, Lost}},
		"back":              {func(y *toy, out *[]delivery) { (*out)[0].to = y.table[[6]byte((*out)[0].frame[6:12])] }, []Kind{Returned, Lost}},
		"a bit of the data": {func(_ *toy, out *[]delivery) { (*out)[0].frame[60] ^= 4 }, []Kind{Corrupted, Lost}},
		"a byte short": {func(_ *toy, out *[]delivery) {
			(*out)[0].frame = (*out)[0].frame[:len((*out)[0].frame)-1]
		}, []Kind{Cut, Lost}},
		"a byte long":   {func(_ *toy, out *[]delivery) { (*out)[0].frame = append((*out)[0].frame, 0) }, []Kind{Cut, Lost}},
		"14 bytes left": {func(_ *toy, out *[]delivery) { (*out)[0].frame = (*out)[0].frame[:14] }, []Kind{Corrupted, Lost}},
		"40 bytes left": {func(_ *toy, out *[]delivery) { (*out)[0].frame = (*out)[0].frame[:40] }, []Kind{Cut, Lost}},
		"twice":         {func(_ *toy, out *[]delivery) { *out = append(*out, (*out)[0]) }, []Kind{Duplicated}},
		"not at all":    {func(_ *toy, out *[]delivery) { *out = nil }, []Kind{Lost}},
		"not at all, counted for the receiver": {func(y *toy, out *[]delivery) {
			y.summary[(*out)[0].to].Drops[dropQueueFull]++
			*out = nil
		}, nil},
		"not at all, counted for the sender": {func(y *toy, out *[]delivery) {
			y.summary[y.table[[6]byte((*out)[0].frame[6:12])]].Drops["drop_storm"]++
			*out = nil
		}, nil},
		"not at all, counted for the third one": {func(y *toy, out *[]delivery) {
			from := y.table[[6]byte((*out)[0].frame[6:12])]
			y.summary[3-from-(*out)[0].to].Drops["drop_storm"]++
			*out = nil
		}, []Kind{Lost}},
		"counted twice":     {func(y *toy, out *[]delivery) { y.summary[(*out)[0].to].FramesToClient++ }, []Kind{Miscounted}},
		"bytes not counted": {func(y *toy, out *[]delivery) { y.summary[(*out)[0].to].BytesToClient-- }, []Kind{Miscounted}},
		"input not counted": {func(y *toy, _ *[]delivery) { y.summary[0].FramesToNet-- }, []Kind{Miscounted}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newToy(Options{})
			y.fault = func(n int, out *[]delivery) {
				if n == when {
					c.fault(y, out)
				}
			}
			y.talk()
			y.end()
			want := c.want
			if name == "to one who does not own it as well" { // which of the two it is depends on who sent
				for _, k := range want {
					if y.l.Counts()[k] > 0 {
						want = []Kind{k}
					}
				}
			}
			y.only(t, want...)
		})
	}
}

// TestOrder: a frame that comes later than the next one is named as that, and neither twice nor lost.
func TestOrder(t *testing.T) {
	for _, late := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			y := newToy(Options{})
			var held *delivery
			wait := 0
			y.fault = func(n int, out *[]delivery) {
				switch {
				case n == 40:
					held, *out = &(*out)[0], nil
				case held != nil && len(*out) > 0 && (*out)[0].to == held.to:
					if wait++; wait == late {
						*out = append(*out, *held)
						held = nil
					}
				}
			}
			y.talk()
			y.l.End()
			y.only(t, Reordered)
		})
	}
}

// TestAddressThatIsNotKnown: unicast may be flooded before its owner has spoken, after it has left, and after a start.
func TestAddressThatIsNotKnown(t *testing.T) {
	y := newToy(Options{})
	flood := func() { // by a network that knows no address
		clear(y.table)
		y.send(0, y.to(1), 64)
	}
	flood()
	y.only(t)
	y.talk()
	y.l.End()
	flood()
	y.l.Begin()
	flood()
	y.only(t)
	y.talk()
	flood()
	y.only(t, Misdelivered)

	y = newToy(Options{})
	y.talk()
	y.conns[1].Closing()
	flood()
	y.only(t)
}

// TestSameAddressAgain: a guest that comes back owns its address.
func TestSameAddressAgain(t *testing.T) {
	y := newToy(Options{})
	y.talk()
	y.l.Gone(y.conns[1])
	y.conns[1] = y.l.Open(1, mac(1), "toy")
	y.talk()
	clear(y.table)
	y.send(0, y.to(1), 64)
	y.only(t, Misdelivered)
}

// TestLossInARestart is excused, before and after it is not.
func TestLossInARestart(t *testing.T) {
	y := newToy(Options{})
	y.talk()
	lose := func(n int) {
		y.fault = func(_ int, out *[]delivery) { *out = nil }
		for range n {
			y.send(0, y.to(1), 64)
		}
		y.fault = nil
	}
	y.l.End()
	lose(3)
	y.l.Begin()
	lose(4)
	y.send(0, y.to(1), 64)
	y.send(1, y.to(0), 64)
	y.end()
	y.only(t)
	assert.EqualValues(t, 7, y.l.Stats.Excused.Load())

	y = newToy(Options{})
	y.talk()
	lose(3)
	y.send(0, y.to(1), 64)
	y.end()
	y.only(t, Lost)
}

// TestAliens: frames of others are those that the caller knows.
func TestAliens(t *testing.T) {
	other := slices.Concat(mac(0), []byte{0x0e, 0, 0, 0, 0, 1, 8, 0}, make([]byte, 46))
	y := newToy(Options{Alien: func(f []byte) bool { return f[6] == 0x0e }})
	y.talk()
	y.conns[0].Receive(other)
	y.conns[1].Receive(other) // to a connection that is not known for long
	y.only(t)
	y.now += 2 * alienAge
	y.conns[1].Receive(other)
	y.only(t, Misdelivered)
	other[6] = 0x0c
	y.conns[0].Receive(other)
	y.only(t, Misdelivered, Corrupted)
}

// TestOldConnections are forgotten one life later: frames of theirs may still be on the way.
func TestOldConnections(t *testing.T) {
	y := newToy(Options{})
	y.talk()
	f := y.conns[0].Compose(nil, y.to(1), 100)
	y.end()
	other := y.l.Open(7, mac(7), "toy")
	other.Receive(f)
	y.only(t)
	y.l.EndLife()
	other.Receive(f)
	y.only(t, Corrupted)
	require.Len(t, y.l.conns, 1)
	require.Len(t, y.l.owners, 1)
}

// FuzzReceive: no frame that was changed anywhere is taken for one that was sent.
func FuzzReceive(f *testing.F) {
	f.Add(uint16(100), uint16(3), byte(1), uint16(0))
	f.Add(uint16(62), uint16(61), byte(255), uint16(0))
	f.Add(uint16(1514), uint16(14), byte(0), uint16(1513))
	f.Fuzz(func(t *testing.T, n, where uint16, change byte, cut uint16) {
		y := newToy(Options{})
		b := y.conns[0].Compose(nil, y.to(1), int(n%2000))
		b[int(where)%len(b)] ^= change
		b = b[:len(b)-int(cut)%len(b)]
		y.conns[1].Receive(b)
		changed := change != 0 || len(b) != max(int(n%2000), MinLen)
		require.Equal(t, changed, len(y.l.Violations()) == 1)
	})
}
