// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBadInput: each mistake ends with code 1 and says what is wrong, before anything is called.
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ name, goos, words, want string }{
		{"nothing", "darwin", "", "no verb"},
		{"unknown verb", "darwin", "start", `unknown verb "start"`},
		{"unknown option", "darwin", "run --count=2", "-count"},
		{"value without option", "darwin", "run 3", `what is "3" for?`},
		{"no machines", "darwin", "create -c 0", "-c wants a number from 1 to 64"},
		{"count that is no number", "darwin", "create -c two", `"two"`},
		{"type of another system", "linux", "run -v vz", "the types here are qemu"},
		{"bridged on Linux", "linux", "run -b eth0", "bridged mode needs macOS"},
		{"other systems", "freebsd", "run", "this is freebsd"},
		{"vm to vm with one", "darwin", "vm-to-vm -c 1 --old /a", "vm-to-vm needs two machines"},
		{"comparison without old", "darwin", "vm-to-vm", "--old is missing"},
		{"daemon for a comparison", "linux", "vm-to-vm --old /a -s /a", "-s is for the verb run"},
		{"old daemon for run", "linux", "run --old /a", "--old and --new are for the verbs"},
		{"daemon that is not there", "darwin", "run -s /nowhere", "find the daemon /nowhere"},
		{"daemon that is a directory", "darwin", "run -s /tmp", "neither a socket nor a program"},
		{"no daemon", "darwin", "run", "Start the daemon, or name one with -s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.goos)
			assert.Equal(t, 1, w.main(t.Context(), strings.Fields(c.words)))
			assert.Contains(t, w.stderr.String(), c.want)
			assert.NoFileExists(t, w.path("calls"))
		})
	}
}

// created is a world on macOS in which there are two machines and a daemon is running.
func created(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "darwin")
	w.listen(w.path("run/socket_vmnet"))
	w.ok("create")
	w.calls()
	return w
}

func TestRun(t *testing.T) {
	w := created(t)
	w.write("lima/vmnet2-perf1/status", "Running\n", 0o600) // of a run that was killed
	w.ok("run", "-c", "2", "-t3", "-v", "qemu")
	shell := "limactl shell --workdir / "
	assert.Equal(t, []string{
		"limactl list --json", "limactl stop vmnet2-perf1",
		`limactl edit vmnet2-perf1 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		`limactl edit vmnet2-perf2 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		"limactl start --tty=false vmnet2-perf1",
		"limactl start --tty=false vmnet2-perf2",
		shell + "vmnet2-perf1 sudo systemctl restart iperf3.service",
		shell + "vmnet2-perf1 ip -4 -o addr show dev lima0", "ip ",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json", "ps",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json --reverse", "ps",
		"ps", shell + "vmnet2-perf2 iperf3 --client 192.168.105.7 --time 3 --json", "iperf3 --client 192.168.105.7 --time 3 --json", "ps",
		"limactl stop vmnet2-perf1", "limactl stop vmnet2-perf2",
	}, w.calls())
	for _, direction := range []string{hostToVM, vmToHost, vmToVM} {
		b, err := os.ReadFile(w.path("out/shared-qemu-2/" + direction + ".json"))
		require.NoError(t, err)
		assert.Equal(t, goodResult, string(b), "iperf3's output as it is")
	}
	assert.Regexp(t, `vm-to-vm +2\.400 +7 +80\.000`, w.stdout.String())
}

// TestRunThatFails: whatever fails, the machines are stopped and an earlier run's results stay.
func TestRunThatFails(t *testing.T) {
	for _, c := range []struct{ name, wish, want string }{
		{"a machine does not boot", "no-start", "vmnet2-perf1 does not boot"},
		{"macOS refuses", "no-route", "since macOS 15 programs need to be allowed"},
		{"half a result", "half", "vm-to-host: no iperf3 result, or half of one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := created(t)
			require.NoError(t, os.MkdirAll(w.path("out/shared-vz-2"), 0o700))
			w.write("out/shared-vz-2/host-to-vm.json", "earlier", 0o600)
			w.write("wish."+c.wish, "", 0o600)
			w.fails(c.want, "run")
			calls := w.calls()
			assert.Equal(t, []string{"limactl stop vmnet2-perf1", "limactl stop vmnet2-perf2"}, calls[len(calls)-2:])
			b, err := os.ReadFile(w.path("out/shared-vz-2/host-to-vm.json"))
			require.NoError(t, err)
			assert.Equal(t, "earlier", string(b))
		})
	}
}

func TestInterrupt(t *testing.T) {
	w := created(t)
	w.write("wish.sleep", "", 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- w.main(ctx, []string{"run"}) }()
	require.Eventually(t, func() bool {
		_, err := os.Stat(w.path("sleeping"))
		return err == nil
	}, patience, 10*time.Millisecond)
	cancel()
	assert.Equal(t, 1, <-code)
	assert.Contains(t, w.stderr.String(), "interrupted; what it started has been ended")
	calls := w.calls()
	assert.Equal(t, []string{"limactl stop vmnet2-perf1", "limactl stop vmnet2-perf2"}, calls[len(calls)-2:])
}

func TestCompare(t *testing.T) {
	w := created(t)
	w.write("bin/new", "#!/bin/sh\nexec \"$FAKE/bin/socket_vmnet\" \"$@\"\n", 0o755)
	w.ok("vm-to-vm", "-t", "3", "--old", w.path("bin/socket_vmnet"), "--new="+w.path("bin/new"))
	var started []string
	calls := w.calls()
	for _, c := range calls {
		if strings.HasPrefix(c, "sudo ") && !strings.Contains(c, "kill") {
			started = append(started, strings.Fields(c)[1])
			assert.Contains(t, c, " --vmnet-gateway=192.168.105.1 DIR/run/socket_vmnet.perf")
		}
	}
	assert.Equal(t, []string{"DIR/bin/socket_vmnet", "DIR/bin/new", "DIR/bin/new", "DIR/bin/socket_vmnet"}, started, "A B B A")
	all := strings.Join(calls, "\n")
	assert.Equal(t, 4, strings.Count(all, "sudo kill -TERM "))
	assert.Equal(t, 4, strings.Count(all, "limactl stop vmnet2-perf2"), "machines have their socket for as long as they run")
	assert.NotContains(t, all, "iperf3-darwin", "one direction only")
	for _, name := range []string{"000.old", "000.new", "001.new", "001.old"} {
		assert.FileExists(t, w.path("out/old-new/shared-vz-2.vm-to-vm/"+name+".json"))
	}
	assert.Regexp(t, `new/old +1\.00x +1\.00x`, w.stdout.String())
	_, err := listener(w.path("run/socket_vmnet.perf"))
	require.Error(t, err, "the daemons have ended")
}

func TestDaemonThatDoesNotStart(t *testing.T) {
	w := created(t)
	w.fails("it ended before it was ready\n  vmnet_start_interface: not permitted", "run", "-s", w.path("bin/broken"))
	assert.NotContains(t, strings.Join(w.calls(), "\n"), "limactl start")
	w.listen(w.path("run/socket_vmnet.perf"))
	w.fails("another daemon is running on", "run", "-s", w.path("bin/socket_vmnet"))
}
