// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package ffi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// patience is how long something may take on a loaded machine.
const patience = time.Minute

// simDir is where each library's control file is.
var simDir string

func TestMain(m *testing.M) {
	var err error
	if simDir, err = os.MkdirTemp("", "ffi"); err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		const in = "github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi."
		err := goleak.Find(goleak.IgnoreAnyFunction(in+"serveAnswers"), // and what waits for handlers that never come
			goleak.IgnoreAnyFunction(in+"(*API).ask"), goleak.IgnoreAnyFunction(in+"(*interfaceRef).started"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.RemoveAll(simDir)
	os.Exit(code)
}

// A sim is a simulator with its switches, and what was there when the test began: blocks whose handlers never come stay.
type sim struct {
	*ffi.API
	c      *vmnetsim.Control
	before ffi.Gauges
	kept   ffi.Gauges // what this test leaves behind on purpose
}

// opened has each library once: it is loaded into the process only once anyway.
var opened = map[vmnetsim.Flavour]*sim{}

func open(t testing.TB, f vmnetsim.Flavour) *sim {
	t.Helper()
	lib := vmnetsim.Library(t, f)
	s := opened[f]
	if s == nil {
		dir := filepath.Join(simDir, filepath.Base(filepath.Dir(lib)))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		c, err := vmnetsim.Open(dir)
		require.NoError(t, err)
		a, err := ffi.OpenSimulator(lib, dir)
		require.NoError(t, err)
		s = &sim{API: a, c: c}
		opened[f] = s
	}
	s.c.Reset()
	s.before, s.kept = s.Gauges(), ffi.Gauges{}
	t.Cleanup(func() { s.nothingLeft(t) })
	return s
}

// nothingLeft checks that the test left nothing on either side but what it said it would.
func (s *sim) nothingLeft(t testing.TB) {
	t.Helper()
	want := s.before
	want.Add(s.kept)
	assert.Eventually(t, func() bool { return s.Gauges() == want }, patience, time.Millisecond,
		"left behind in Go: %+v, want %+v", s.Gauges(), want)
	c := func() []int64 {
		g := s.c.Gauges()
		return []int64{g.Interfaces, g.Networks, g.Queues, g.Objects, g.Blocks}
	}
	queues := want.Queues
	assert.Eventually(t, func() bool { return slices.Equal(c(), []int64{0, 0, queues, queues, 0}) }, patience, time.Millisecond,
		"interfaces, networks, queues, objects, blocks left behind in C: %v, want %d queues", c(), queues)
}

// during makes a call in whose middle, after the simulator has counted its function, its context is cancelled.
func (s *sim) during(t testing.TB, function string, call func(ctx context.Context) error) error {
	t.Helper()
	before := s.c.Calls()[function]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	require.Eventually(t, func() bool { return s.c.Calls()[function] > before }, patience, time.Millisecond, function)
	cancel()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		require.Fail(t, "does not heed its context", function)
		return nil
	}
}

// never is a delay in milliseconds, or microseconds, that a test ends by setting it to 0.
const never = 1 << 40

// within ends when a test's patience does.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// shared is the plainest interface.
var shared = api.InterfaceConfig{Mode: network.ModeShared}

// start starts an interface and stops it when the test ends.
func (s *sim) start(t testing.TB) api.Interface {
	t.Helper()
	i, err := s.Start(within(t), shared)
	require.NoError(t, err)
	stopLater(t, i)
	return i
}

func stopLater(t testing.TB, i api.Interface) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, i.Stop(ctx))
	})
}

// isStatus checks that err is a call that failed with st.
func isStatus(t testing.TB, err error, call string, st api.Status) {
	t.Helper()
	var e *api.CallError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, api.CallError{Call: call, Status: st}, *e)
	assert.ErrorIs(t, err, st)
}

// statuses are all failures.
var statuses = []api.Status{
	api.Failure, api.MemFailure, api.InvalidArgument, api.SetupIncomplete, api.InvalidAccess, api.PacketTooBig,
	api.BufferExhausted, api.TooManyPackets, api.SharingServiceBusy, api.NotAuthorized,
}

func TestRequiredSymbolMissing(t *testing.T) {
	err := ffi.OpenLibrary("libc.so.6")
	assert.ErrorContains(t, err, "vmnet_start_interface")
	assert.ErrorContains(t, err, "10.10")
}

func TestFlavours(t *testing.T) {
	tests := []struct {
		name     string
		flavour  vmnetsim.Flavour
		networks bool
		readMax  int
	}{
		{"macOS 26", vmnetsim.Full, true, 256},
		{"macOS 15", vmnetsim.NoMacOS26, false, 256},
		{"macOS 14", vmnetsim.NoMacOS15, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.flavour)
			assert.Equal(t, tt.networks, s.Features().Networks)

			p := s.start(t).Params()
			assert.Equal(t, []int{1500, 1514, tt.readMax, tt.readMax}, []int{p.MTU, p.MaxPacket, p.ReadMax, p.WriteMax})
			assert.Len(t, p.MAC, 6)
			assert.Len(t, p.InterfaceID, 36)
			assert.Equal(t, "192.168.64.1 192.168.64.254 255.255.255.0", p.Start.String()+" "+p.End.String()+" "+p.Mask.String())
			assert.True(t, slices.IsSortedFunc(p.Entries, func(a, b api.Entry) int { return strings.Compare(a.Key, b.Key) }))

			if tt.networks {
				return
			}
			_, err := s.NewNetwork(api.NetworkConfig{Mode: network.ModeShared})
			require.ErrorIs(t, err, api.ErrMissing)
			assert.ErrorContains(t, err, "vmnet_network_configuration_create")
			assert.ErrorContains(t, err, "macOS 26")
		})
	}
}

func TestSharedInterfaces(t *testing.T) {
	s := open(t, vmnetsim.Full)
	names, err := s.SharedInterfaces()
	require.NoError(t, err)
	assert.Equal(t, []string{"en0", "en1"}, names)
	s.c.Set(vmnetsim.SharedListResult, 1)
	names, err = s.SharedInterfaces()
	require.NoError(t, err)
	assert.Empty(t, names)
}

// TestParamTypes has a dictionary with a value of each type.
func TestParamTypes(t *testing.T) { madeUpParams(t, open(t, vmnetsim.Full).MadeUpParams()) }
