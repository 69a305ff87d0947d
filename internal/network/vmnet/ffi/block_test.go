// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

func TestBlockIsCalledOnce(t *testing.T) {
	s := open(t, vmnetsim.Full)
	b, err := s.Block()
	require.NoError(t, err)
	b.Call(api.Failure)
	b.Call(api.Success) // once too often
	assert.Equal(t, ffi.Answer(api.Failure), <-b.Answers)
	assert.False(t, b.GiveUp(), "the answer has come")
	b.Call(api.Success) // not in use

	again, err := s.Block()
	require.NoError(t, err)
	assert.False(t, b.GiveUp(), "which is of an earlier use")
	assert.Empty(t, again.Answers, "of the use before")
	assert.True(t, again.GiveUp())
	again.Call(api.Success) // late
	other, err := s.Block()
	require.NoError(t, err)
	other.Call(api.MemFailure)
	assert.Equal(t, ffi.Answer(api.MemFailure), <-other.Answers)
	assert.Empty(t, again.Answers)
}

// TestBlocksAtOnce has blocks called and given up by several threads while answers are delivered.
func TestBlocksAtOnce(t *testing.T) {
	s := open(t, vmnetsim.Full)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				st := api.Status(1000 + g*2000 + k)
				b, err := s.Block()
				if !assert.NoError(t, err) {
					return
				}
				called := make(chan struct{})
				go func() {
					defer close(called)
					b.Call(st)
				}()
				if k%3 == 0 && b.GiveUp() {
					<-called
					continue
				}
				select {
				case got := <-b.Answers:
					assert.Equal(t, ffi.Answer(st), got)
				case <-time.After(patience):
					assert.Fail(t, "the answer is lost")
					return
				}
				<-called
			}
		})
	}
	wg.Wait()
}
