// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
)

func TestBlockIsCalledOnce(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	var got []api.Status
	h, err := table.Take(1, func(st api.Status) { got = append(got, st) }, nil)
	require.NoError(t, err)
	assert.True(t, table.Call(h.Block(), api.Failure))
	assert.False(t, table.Call(h.Block(), api.Success), "once too often")
	assert.Equal(t, []api.Status{api.Failure}, got)
	assert.Zero(t, table.Used())
}

func TestBlocksOfTwoLibraries(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	one, err := table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	require.True(t, table.Call(one.Block(), api.Success))
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
	assert.Equal(t, []int{1, 1}, []int{late, given})
	_, err = table.Take(1, func(api.Status) {}, nil)
	require.NoError(t, err)
	assert.Equal(t, ffi.Size, table.Used())
}

func TestBlocksAtOnce(t *testing.T) {
	table, err := ffi.NewTable()
	require.NoError(t, err)
	var called atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 2000 {
				mine := false
				h, err := table.Take(uintptr(g%2), func(api.Status) { called.Add(1); mine = true }, nil)
				if !assert.NoError(t, err) || !assert.True(t, table.Call(h.Block(), api.Success)) || !assert.True(t, mine) {
					return
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int64(16000), called.Load())
	assert.Zero(t, table.Used())
}
