// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
)

func TestBlockIsCalledOnce(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	var got []api.Status
	h, err := table.Take(1, func(st api.Status) { got = append(got, st) }, nil)
	require.NoError(t, err)
	assert.True(t, table.Call(h.Block(), api.Failure))
	assert.False(t, table.Call(h.Block(), api.Success), "once too often")
	assert.Equal(t, 1, table.Used(), "until the answer was delivered")
	assert.False(t, table.Cancel(h), "the answer is under way")
	table.Deliver()
	table.Deliver()
	assert.False(t, table.Call(h.Block(), api.Success), "not in use")
	table.Deliver()
	assert.Equal(t, []api.Status{api.Failure}, got)
	assert.Zero(t, table.Used())
}

func TestBlocksOfTwoLibraries(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	one, err := table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	require.True(t, table.Call(one.Block(), api.Success))
	table.Deliver()
	two, err := table.Take(2, func(api.Status) {}, nil)
	require.NoError(t, err)
	assert.NotEqual(t, one.Block(), two.Block(), "the first library may still look at its block")
	again, err := table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	assert.Equal(t, one.Block(), again.Block())
}

// TestBlocksRunOut has handlers that never come fill the table.
func TestBlocksRunOut(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	late, given := 0, 0
	first, err := table.Take(1, func(api.Status) { late++ }, func() { given++ })
	require.NoError(t, err)
	second, err := table.Take(1, func(api.Status) { late++ }, func() { given++ })
	require.NoError(t, err)
	for range ffi.Size - 2 {
		_, err := table.Take(1, func(api.Status) {}, nil)
		require.NoError(t, err)
	}
	_, err = table.Take(1, func(api.Status) {}, nil)
	require.ErrorIs(t, err, api.ErrNoAnswer)
	assert.ErrorContains(t, err, "1024 handlers were never called")

	second.Age() // now it is the oldest
	h, err := table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	assert.Equal(t, second.Block(), h.Block())
	assert.Equal(t, []int{0, 1}, []int{late, given}, "given up")
	_, err = table.Take(1, func(api.Status) {}, nil)
	require.ErrorIs(t, err, api.ErrNoAnswer)

	require.True(t, table.Call(first.Block(), api.Success), "late, but it finds its way")
	table.Deliver()
	assert.Equal(t, []int{1, 1}, []int{late, given})
	_, err = table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	assert.Equal(t, ffi.Size, table.Used())
}

// TestCancelOfAnEarlierUse has a slot used again before its last user gives it up.
func TestCancelOfAnEarlierUse(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	before, err := table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	require.True(t, table.Call(before.Block(), api.Success))
	table.Deliver()
	called := false
	h, err := table.Take(1, func(api.Status) { called = true }, nil)
	require.NoError(t, err)
	require.Equal(t, before.Block(), h.Block())
	assert.False(t, table.Cancel(before))
	assert.True(t, table.Call(h.Block(), api.Success))
	table.Deliver()
	assert.True(t, called)

	h, err = table.Take(1, func(api.Status) { assert.Fail(t, "cancelled") }, nil)
	require.NoError(t, err)
	assert.True(t, table.Cancel(h))
	assert.False(t, table.Call(h.Block(), api.Success))
	table.Deliver()
	assert.Zero(t, table.Used())
}

// TestBlocksAtOnce has blocks called and given up by several threads while answers are delivered.
func TestBlocksAtOnce(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	var called, cancelled atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				answered := make(chan api.Status, 2)
				st := api.Status(1000 + g*2000 + k)
				h, err := table.Take(uintptr(g%2), func(st api.Status) { answered <- st }, nil)
				if !assert.NoError(t, err) {
					return
				}
				if k%3 == 0 && table.Cancel(h) {
					cancelled.Add(1)
					continue
				}
				table.Call(h.Block(), st)
				if !assert.Equal(t, st, <-answered) {
					return
				}
				called.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for working := true; working; {
		select {
		case <-done:
			working = false
		default:
			table.Deliver()
			runtime.Gosched()
		}
	}
	assert.Equal(t, int64(16000), called.Load()+cancelled.Load())
	assert.Zero(t, table.Used())
}
