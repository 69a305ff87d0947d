// SPDX-License-Identifier: Apache-2.0

package network

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g, unused Gate
	g.Init()
	unused.Init()
	assert.True(t, g.Enter())
	assert.True(t, g.Enter())
	assert.False(t, g.IsShut())
	empty := g.Shut()
	assert.True(t, g.IsShut())
	assert.False(t, g.Enter(), "it is shut")
	g.Leave()
	select {
	case <-empty:
		t.Error("one is inside")
	default:
	}
	g.Leave()
	<-empty
	assert.False(t, g.Enter())
	assert.Equal(t, empty, g.Shut(), "again")
	<-unused.Shut()
}

// TestGateIsEmptyOnceShut lets many come and go while the gate is shut by several.
func TestGateIsEmptyOnceShut(t *testing.T) {
	for range 200 {
		var g Gate
		g.Init()
		var inside, after atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for g.Enter() {
					inside.Add(1)
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		for range 2 {
			all.Go(func() {
				<-g.Shut()
				after.Add(inside.Load())
			})
		}
		all.Wait()
		assert.Zero(t, after.Load())
	}
}

func TestIdentities(t *testing.T) {
	a, b := NewID(), NewID()
	assert.NotEqual(t, a, b)
	assert.NotEqual(t, DeriveID(a, "x"), DeriveID(a, "y"))
	assert.NotEqual(t, DeriveID(a, "x"), DeriveID(b, "x"))
	dns := ID{0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
	assert.Equal(t, "2ED6657D-E927-568B-95E1-2665A8AEA6A2", IDText(DeriveID(dns, "www.example.com")), "RFC 9562, A.4")
	assert.Equal(t, "5a:94:76:88:f9:d6", MACOf(dns).String(), "the same in every version")
	assert.NotEqual(t, MACOf(a), MACOf(b))
	assert.Empty(t, IDText(ID{}))
	assert.Equal(t, byte(2), MACOf(a)[0]&3, "locally administered, individual")
}

// TestIDs: a client has the same identity each time, and those that say nothing of themselves the first free one of their row.
func TestIDs(t *testing.T) {
	var s IDs
	s.Init(ID{9})
	take := func(o PortOptions) ID {
		id, err := s.Take(o)
		require.NoError(t, err)
		return id
	}
	asked, a, twin, third := take(PortOptions{InterfaceID: ID{1}}), take(PortOptions{ID: "a"}), take(PortOptions{ID: "a"}), take(PortOptions{ID: "a"})
	one, two := take(PortOptions{}), take(PortOptions{})
	assert.Len(t, map[ID]bool{asked: true, a: true, twin: true, third: true, one: true, two: true}, 6)
	for _, taken := range []ID{{1}, {9}, a} {
		_, err := s.Take(PortOptions{InterfaceID: taken})
		require.ErrorIs(t, err, ErrIDInUse)
	}
	for _, id := range []ID{asked, a, twin, one} {
		s.Free(id)
	}
	assert.Equal(t, asked, take(PortOptions{InterfaceID: ID{1}}))
	assert.Equal(t, []ID{a, twin}, []ID{take(PortOptions{ID: "a"}), take(PortOptions{ID: "a"})})
	assert.Equal(t, one, take(PortOptions{}))
	assert.NotEqual(t, two, take(PortOptions{}))
}
