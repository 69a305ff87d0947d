// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRights(t *testing.T) {
	err := checkRights(1000, os.DevNull)
	require.ErrorIs(t, err, ErrUnable)
	require.ErrorContains(t, err, "need root; run it with sudo")
	missing := filepath.Join(t.TempDir(), "tun")
	err = checkRights(0, missing)
	require.ErrorIs(t, err, ErrUnable)
	require.ErrorContains(t, err, missing)
	require.ErrorContains(t, err, "modprobe tun")
	assert.NoError(t, checkRights(0, os.DevNull))
}

func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("E2E_CACHE", t.TempDir())
	t.Setenv("E2E_GVPROXY", "")
	l := &lab{o: Options{Daemon: filepath.Join(t.TempDir(), "socket_vmnet2")}}
	err := l.findTools(setups())
	require.ErrorIs(t, err, ErrUnable)
	for _, want := range []string{
		"apt-get install gcc", "apt-get install iproute2", "apt-get install iperf3", "make build", l.o.Daemon, "test/e2e/setup.sh perf",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestGvproxyIsFound(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("E2E_CACHE", cache)
	assert.Equal(t, "gvproxy", cachedGvproxy(), "there is none in the cache")
	want := filepath.Join(cache, "gvproxy-1", "gvproxy")
	require.NoError(t, os.MkdirAll(filepath.Dir(want), 0o700))
	require.NoError(t, os.WriteFile(want, nil, 0o600))
	assert.Equal(t, want, cachedGvproxy())
}

func TestUsage(t *testing.T) {
	u, err := usageOf(os.Getpid())
	require.NoError(t, err)
	assert.Positive(t, u.cpu)
	assert.Positive(t, u.memory)
	assert.Positive(t, u.voluntary+u.involuntary)
	_, err = usageOf(1 << 30)
	require.ErrorContains(t, err, "process 1073741824")
	assert.Equal(t, uint64(12), field("Name:\tx\nRssAnon:\t      12 kB\n", "RssAnon"))
	assert.Zero(t, field("RssAnon:\nx: y\n", "RssAnon"))
	assert.Zero(t, less(1, 2))
}

func TestCanceledAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, err := Run(ctx, Options{Daemon: "/bin/true", Gvproxy: "/bin/true", Rounds: 1})
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, f.Rounds)
}
