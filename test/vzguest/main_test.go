// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, args, want string // want: the error's text, empty for none
	}{
		{"kernel", "--mac 52:54:00:12:34:56 --kernel a --initrd b --cmdline quiet --cpus 2 --memory 1024 --timeout 5m", ""},
		{"nothing", "--mac 52:54:00:12:34:56", "nothing to boot"},
		{"no address", "--kernel a", "--mac is missing"},
		{"wrong address", "--kernel a --mac x", "x"},
		{"operand", "--kernel a --mac 52:54:00:12:34:56 x", `unexpected argument "x"`},
		{"unknown", "--bridged", "-bridged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parse(strings.Fields(c.args), io.Discard)
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "52:54:00:12:34:56", o.mac.String())
				return
			}
			require.ErrorContains(t, err, c.want)
			var log strings.Builder
			assert.Equal(t, exitUsage, run(strings.Fields(c.args), &log))
			assert.True(t, strings.HasPrefix(log.String(), "vzguest: "), log.String())
		})
	}
	var log strings.Builder
	assert.Zero(t, run([]string{"--help"}, &log))
	assert.Contains(t, log.String(), "  -kernel FILE")
}

func TestUntilSignal(t *testing.T) {
	ctx, stop := untilSignal(0)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-ctx.Done()
	assert.Equal(t, 129, exitCode(context.Cause(ctx)))
	stop(nil)
	ctx, stop = untilSignal(time.Millisecond)
	<-ctx.Done()
	assert.Equal(t, exitTimeout, exitCode(context.Cause(ctx)))
	stop(nil)
	ctx, stop = untilSignal(time.Hour)
	stop(errNetworkLost)
	<-ctx.Done()
	assert.Equal(t, exitNetwork, exitCode(context.Cause(ctx)))
}

func TestWatchLifeline(t *testing.T) {
	lifeline, daemon := net.Pipe()
	ended := make(chan struct{})
	go watchLifeline(lifeline, func() { close(ended) })
	_, err := daemon.Write([]byte("more than an end"))
	require.NoError(t, err)
	require.NoError(t, daemon.Close())
	<-ended
}
