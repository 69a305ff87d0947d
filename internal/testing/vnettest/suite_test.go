// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

func TestMain(m *testing.M) {
	if code, ran := gateway.Main("test"); ran { // of a network in this process
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestToyPasses runs the whole suite on a network that keeps all rules.
func TestToyPasses(t *testing.T) {
	TestNetwork(t, func(*testing.T) network.Network { return newToy(faults{}) })
}

// A recorder is a tester that notes failures instead of failing.
type recorder struct {
	mu     sync.Mutex
	failed []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { runtime.Goexit() }
func (r *recorder) Helper()  {}

// verdict runs one check on a toy with faults and returns what it complained about.
func verdict(t *testing.T, c check, f faults, patience time.Duration) []string {
	t.Helper()
	r := &recorder{}
	before := goleak.IgnoreCurrent()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runCheck(r, c, newToy(f), patience)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the check hangs", c.name)
	}
	if f.leak {
		if err := goleak.Find(before); err != nil {
			r.Errorf("%v", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// TestEveryFaultIsCaught breaks the toy in one way at a time. The check that is named must complain; the others may.
func TestEveryFaultIsCaught(t *testing.T) {
	tests := []struct {
		fault faults
		check string
	}{
		{faults{floodUnicast: true}, "Forward"},
		{faults{loseUnknown: true}, "Forward"},
		{faults{reorder: true}, "Forward"},
		{faults{cut: true}, "Forward"},
		{faults{keepMACs: true}, "AddressLeavesWithPort"},
		{faults{lock: true}, "HeldSink"},
		{faults{retain: true}, "Forward"},
		{faults{scribble: true}, "Forward"},
		{faults{miscount: true}, "Forward"},
		{faults{deliverLate: true}, "NothingAfterClose"},
		{faults{closeNoWait: true}, "CloseWaits"},
		{faults{closePanics: true}, "CloseTwice"},
		{faults{leak: true}, "AttachCloseStorm"},
		{faults{otherError: true}, "NetworkClose"},
		{faults{silentEnd: true}, "NetworkClose"},
		{faults{noErr: true}, "NetworkClose"},
		{faults{earlyDone: true}, "Info"},
		{faults{uncountedDrop: true}, "SendAfterClose"},
		{faults{lyingInfo: true}, "Info"},
		{faults{attachLosesFirst: true}, "FirstFrame"},
		{faults{endsWithContext: true}, "AttachContext"},
	}
	tried := map[string]bool{}
	for _, tt := range tests {
		name := faultName(tt.fault)
		tried[name] = true
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == tt.check })
			assert.NotEmpty(t, verdict(t, checks[i], tt.fault, 150*time.Millisecond), "%s did not notice", tt.check)
		})
	}
	assert.Len(t, tried, reflect.TypeFor[faults]().NumField(), "every fault is tried")
}

// faultName is the name of the first field of f that is set.
func faultName(f faults) string {
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		if v.Field(i).Bool() {
			return v.Type().Field(i).Name
		}
	}
	return ""
}

// TestEveryCheckCanFail makes sure that no check passes whatever the network does.
func TestEveryCheckCanFail(t *testing.T) {
	all := faults{
		loseUnknown: true, floodUnicast: true, reorder: true, earlyDone: true, attachLosesFirst: true,
		lyingInfo: true, scribble: true, miscount: true,
	}
	for _, c := range checks {
		assert.NotEmpty(t, verdict(t, c, all, 50*time.Millisecond), c.name)
	}
}
