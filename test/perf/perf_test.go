// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, goos, words string
		want              options
	}{
		{"as socket_vmnet's", "darwin", "run", options{verb: "run", count: 2, seconds: 30, vm: "vz", out: "perf.out", rounds: 2}},
		{"all of its options", "darwin", "run -c 3 -t 5 -v qemu -b en0 -o dir", options{verb: "run", count: 3, seconds: 5, vm: "qemu", iface: "en0", out: "dir", rounds: 2}},
		{"attached", "darwin", "run -c3 -t5 -vkrunkit", options{verb: "run", count: 3, seconds: 5, vm: "krunkit", out: "perf.out", rounds: 2}},
		{"Linux has no vz", "linux", "run", options{verb: "run", count: 2, seconds: 30, vm: "qemu", out: "perf.out", rounds: 2}},
		{"old and new", "linux", "vm-to-vm -r 3 --old=/a", options{verb: "vm-to-vm", count: 2, seconds: 30, vm: "qemu", out: "perf.out", rounds: 3, old: "/a", new: "tree"}},
		{"one machine", "darwin", "host-to-vm -c 1 --old /a --new /b", options{verb: "host-to-vm", count: 1, seconds: 30, vm: "vz", out: "perf.out", rounds: 2, old: "/a", new: "/b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse(strings.Fields(c.words), c.goos)
			require.NoError(t, err)
			c.want.out, err = filepath.Abs(c.want.out)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

// TestBadInput: each mistake ends with code 1 and says what is wrong, before anything is called.
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ name, goos, words, want string }{
		{"nothing", "darwin", "", "no verb"},
		{"unknown verb", "darwin", "start", `"start" is no verb`},
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

func TestCreateAndDelete(t *testing.T) {
	w := newWorld(t, "darwin")
	w.ok("create", "-c", "1", "-v", "qemu")
	w.ok("create", "-v", "qemu")
	create := `limactl create --name=perf%s --tty=false --set .vmType = "qemu" ROOT/test/perf/lima.yaml`
	list := "limactl list --json"
	assert.Equal(t, []string{list, strings.Replace(create, "%s", "1", 1), list, list, strings.Replace(create, "%s", "2", 1), list}, w.calls())
	assert.FileExists(t, filepath.Join(w.root, "test/perf/lima.yaml"))
	w.ok("delete")
	assert.Equal(t, []string{list, "limactl delete --force perf1", "limactl delete --force perf2"}, w.calls())
}

func TestForeignMachinesAreLeftAlone(t *testing.T) {
	w := newWorld(t, "darwin")
	w.listen(w.path("run/socket_vmnet"))
	w.ok("create", "-c", "1")
	require.NoError(t, os.Mkdir(w.path("lima/perf2"), 0o700))
	w.write("lima/perf2/status", "Running\n", 0o600)
	w.calls()
	for _, verb := range []string{"create", "run", "delete"} {
		w.fails("perf2 was not made by test/perf.sh and is left alone", verb)
	}
	list := "limactl list --json"
	assert.Equal(t, []string{list, list, list, "limactl delete --force perf1"}, w.calls(), "its own is deleted")
	assert.DirExists(t, w.path("lima/perf2"))
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
	w.write("lima/perf1/status", "Running\n", 0o600) // of a run that was killed
	w.ok("run", "-c", "2", "-t3", "-v", "qemu")
	shell := "limactl shell --workdir / "
	assert.Equal(t, []string{
		"limactl list --json", "limactl stop perf1",
		`limactl edit perf1 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		`limactl edit perf2 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		"limactl start --tty=false perf1",
		"limactl start --tty=false perf2",
		shell + "perf1 sudo systemctl restart iperf3.service",
		shell + "perf1 ip -4 -o addr show dev lima0", "ip ",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json", "ps",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json --reverse", "ps",
		"ps", shell + "perf2 iperf3 --client 192.168.105.7 --time 3 --json", "iperf3 --client 192.168.105.7 --time 3 --json", "ps",
		"limactl stop perf1", "limactl stop perf2",
	}, w.calls())
	for _, direction := range []string{hostToVM, vmToHost, vmToVM} {
		b, err := os.ReadFile(w.path("out/shared-qemu-2/" + direction + ".json"))
		require.NoError(t, err)
		assert.Equal(t, goodResult, string(b), "iperf3's output as it is")
	}
	assert.Regexp(t, `vm-to-vm +2\.400 +7 +80\.000`, w.stdout.String())
}

func TestRunBridgedWithOneMachine(t *testing.T) {
	w := created(t)
	w.listen(w.path("run/socket_vmnet.bridged.en0"))
	w.ok("run", "-c", "1", "-b", "en0")
	assert.FileExists(t, w.path("out/bridged-vz-1/host-to-vm.json"))
	assert.NoFileExists(t, w.path("out/bridged-vz-1/vm-to-vm.json"), "one machine has no other to talk to")
	assert.Contains(t, quote(w.calls()), `.networks[0].socket = "DIR/run/socket_vmnet.bridged.en0"`)
}

// TestRunThatFails: whatever fails, the machines are stopped and an earlier run's results stay.
func TestRunThatFails(t *testing.T) {
	for _, c := range []struct{ name, wish, want string }{
		{"a machine does not boot", "no-start", "perf1 does not boot"},
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
			assert.Equal(t, []string{"limactl stop perf1", "limactl stop perf2"}, calls[len(calls)-2:])
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
	require.Eventually(t, func() bool { return exists(w.path("sleeping")) }, patience, 10*time.Millisecond)
	cancel()
	assert.Equal(t, 1, <-code)
	assert.Contains(t, w.stderr.String(), "interrupted; what it started has been ended")
	calls := w.calls()
	assert.Equal(t, []string{"limactl stop perf1", "limactl stop perf2"}, calls[len(calls)-2:])
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
	assert.Equal(t, 4, strings.Count(quote(calls), "sudo kill -TERM "))
	assert.Equal(t, 4, strings.Count(quote(calls), "limactl stop perf2"), "machines have their socket for as long as they run")
	assert.NotContains(t, quote(calls), "iperf3-darwin", "one direction only")
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
	assert.NotContains(t, quote(w.calls()), "limactl start")
	w.listen(w.path("run/socket_vmnet.perf"))
	w.fails("another daemon is running on", "run", "-s", w.path("bin/socket_vmnet"))
}

func TestGuestFiles(t *testing.T) {
	w := newWorld(t, "linux")
	w.write("lib/libgcc_s.so.1", "", 0o600)
	files, err := guestFiles(t.Context(), "/usr/bin/iperf3", w.dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"perf/iperf3": "/usr/bin/iperf3", "perf/libiperf.so.0": w.path("lib/libiperf.so.0"), "lab/iperf3": w.path("iperf3"),
		"perf/ld-linux-x86-64.so.2": w.path("lib/ld-linux-x86-64.so.2"), "perf/libgcc_s.so.1": w.path("lib/libgcc_s.so.1"),
	}, files)
	b, err := os.ReadFile(w.path("iperf3"))
	require.NoError(t, err)
	assert.Equal(t, "#!/bin/sh\nexec /perf/ld-linux-x86-64.so.2 --library-path /perf /perf/iperf3 \"$@\"\n", string(b))
}

func TestProcessorTime(t *testing.T) {
	for text, want := range map[string]float64{"  0:00.03\n": 0.03, "12:34.50": 754.5, "1:02:03": 3723, "0:01,50": 1.5} {
		got, err := parsePS(text)
		require.NoError(t, err, text)
		assert.InDelta(t, want, got, 1e-9, text)
	}
	_, err := parsePS("no such process")
	require.Error(t, err)
	got, err := parseStat("42 (a ) name) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0")
	require.NoError(t, err)
	assert.InDelta(t, 1.75, got, 1e-9)
	_, err = parseStat("")
	require.Error(t, err)
}

func TestDifference(t *testing.T) {
	var r transfer
	r.End.Received.Seconds, r.End.Received.Bytes = 2, 2e9
	assert.InDelta(t, 0.25, *difference(r, 1, 1.5, nil).cpuPerGB, 1e-9)
	assert.Contains(t, difference(r, 1, 1.05, nil).note, "near the resolution")
	for why, u := range map[string]use{"another one": difference(r, 2, 1, nil), "gone": difference(r, 0, 0, errors.New("gone"))} {
		assert.Nil(t, u.cpuPerGB)
		assert.Contains(t, u.note, why)
	}
}
