// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

var (
	soakDuration = flag.Duration("soak.duration", 8*time.Second, "how long TestSoak is")
	soakSeed     = flag.Uint64("soak.seed", 0, "seed of TestSoak; 0: that of CI")
)

// raceEnabled: the tests are built with the race detector, and so is the daemon then.
var raceEnabled bool

// builtDaemon is the daemon for all tests, which TestMain has built, with the simulator.
var builtDaemon string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "soak-test")
	if err == nil {
		builtDaemon = filepath.Join(dir, "daemon")
		r := &run{o: options{Backend: backendSimulator, Race: raceEnabled}}
		err = r.build(context.Background(), builtDaemon)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// short is a soak for tests: patient, for machines that have much else to do.
func short(d time.Duration) options {
	o := defaults()
	o.Binary = builtDaemon
	o.Duration, o.Clients, o.Pace, o.Pause = d, 14, 2*time.Second, 60*time.Millisecond
	o.StopLimit, o.Patience, o.Race = 15*time.Second, 40*time.Second, raceEnabled
	return o
}

// TestSoak is the short soak of CI: on the embedded network with --anti-spoof; where the daemon is the Mac's program, on the simulator.
func TestSoak(t *testing.T) {
	o := short(*soakDuration)
	o.Seed, o.AntiSpoof = 133, true // by which much happens to the daemon early
	if runtime.GOOS == "darwin" {
		vmnetsim.Library(t, vmnetsim.Full)
		o.Seed, o.AntiSpoof = 28, false
		o.Backend, o.Clients = backendSimulator, 8 // it has room for 32 interfaces
	}
	if *soakSeed != 0 {
		o.Seed = *soakSeed
	}
	o.enough = eventful
	var out bytes.Buffer
	res, err := soak(t.Context(), o, &out)
	require.NoError(t, err, "%s", &out)
	res.print(&out)
	t.Log(out.String())
	assert.Empty(t, res.Violations)
	assert.True(t, eventful(res), "it was not for nothing")
	assert.ErrorIs(t, syscall.Kill(res.r.daemon.pid(), 0), syscall.ESRCH, "no process is left")
}

// eventful tells whether a run has shown something.
func eventful(res *result) bool {
	t, c := &res.r.totals, &res.r.ledger.Stats
	return len(res.Ways) == len(res.r.ways) && t.upgrades.Load()+t.kills.Load() > 0 && len(res.Hostile) > 0 && c.Owned.Load() > 0 && c.Settled.Load() > 0
}

// TestDaemonThatDies: that the daemon exits by itself is a violation, and ends the run.
func TestDaemonThatDies(t *testing.T) {
	o := short(time.Hour)
	o.Pace = time.Hour
	r, cleanup, err := prepare(t.Context(), o, io.Discard)
	require.NoError(t, err)
	defer cleanup(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		if life, ok := r.daemon.wait(t.Context()); assert.True(t, ok) && assert.Equal(t, 1, life) {
			assert.NoError(t, syscall.Kill(r.daemon.pid(), syscall.SIGSEGV))
		}
	})
	_ = r.run(t.Context())
	wg.Wait()
	assert.Equal(t, 1, r.result().Counts[exited])
}

func TestLog(t *testing.T) {
	r := &run{ctx: t.Context(), began: time.Now()}
	r.ledger = ledger.New(ledger.Options{Now: r.now})
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	b := &book{r: r, file: file, entries: map[[6]byte]*entry{}}
	r.book = b
	s := &station{r: r, conn: r.ledger.Open(1, newMAC(guestPrefix), "stream")}
	b.opened(s)
	s.conn.Seen.SentFrames.Store(3)
	s.conn.Seen.SentBytes.Store(300)
	s.conn.Seen.AllSent.Store(true)
	s.conn.Closing()
	b.finished(s)
	b.line("INFO | client gone client=1 reason=\"EOF a=b\" mac=" + s.conn.MAC.String() +
		" frames_to_net=3 bytes_to_net=300 frames_to_client=0 bytes_to_client=0")
	assert.EqualValues(t, 1, r.ledger.Stats.Settled.Load())
	assert.True(t, s.conn.Gone())
	assert.Empty(t, r.ledger.Violations())
	for _, line := range []string{
		"ERROR| internal error: x", "ERROR| anything", "panic: x", "WARNING: DATA RACE", "fatal error: all goroutines are asleep", "goroutine 7 [running]:",
		"WARN | it is given up",
	} {
		before := r.ledger.Counts()[logged]
		b.line(line)
		assert.Equal(t, before+1, r.ledger.Counts()[logged], line)
	}
}

// TestGrowth: what the daemon uses is compared with the beginning.
func TestGrowth(t *testing.T) {
	r := &run{}
	r.totals.uses = []lab.Use{{Files: 20, Threads: 7, RSS: 20_000}}
	for name, c := range map[string]struct {
		u    lab.Use
		want string
	}{
		"the same":    {lab.Use{Files: 20, Threads: 7, RSS: 20_000}, ""},
		"a little":    {lab.Use{Files: 20 + moreFiles, Threads: 7 + moreThreads, RSS: 20_000 + moreMemory}, ""},
		"descriptors": {lab.Use{Files: 21 + moreFiles, Threads: 7, RSS: 20_000}, "descriptors"},
		"threads":     {lab.Use{Files: 20, Threads: 8 + moreThreads, RSS: 20_000}, "threads"},
		"memory":      {lab.Use{Files: 20, Threads: 7, RSS: 20_001 + moreMemory}, "KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.over(c.u); c.want == "" {
				assert.Empty(t, got)
			} else {
				assert.Contains(t, got, c.want)
			}
		})
	}
}
