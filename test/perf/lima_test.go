// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// created is a world on macOS in which there are machines and a daemon is running.
func created(t *testing.T, count string) *world {
	t.Helper()
	w := newWorld(t, "darwin")
	w.listen(filepath.Join(w.runDir, "socket_vmnet"))
	w.ok("create", "-c", count)
	w.calls()
	return w
}

func TestCreateAndDelete(t *testing.T) {
	w := newWorld(t, "darwin")
	w.ok("create", "-c", "2", "-v", "qemu")
	assert.Equal(t, []string{
		"limactl list --json",
		`limactl create --name=perf1 --tty=false --set .vmType = "qemu" ROOT/test/perf/lima.yaml`,
		"limactl list --json",
		`limactl create --name=perf2 --tty=false --set .vmType = "qemu" ROOT/test/perf/lima.yaml`,
		"limactl list --json",
	}, w.calls())
	assert.FileExists(t, filepath.Join(w.root, "test/perf/lima.yaml"))

	w.ok("create", "-c3")
	assert.Contains(t, w.stdout.String(), "perf2 is there already")
	assert.Len(t, w.calls(), 3, "only the third is created")

	w.ok("delete", "-c", "2")
	assert.Equal(t, []string{"limactl list --json", "limactl delete --force perf1", "limactl delete --force perf2"}, w.calls())
	assert.Contains(t, w.stdout.String(), "perf3 stays: test/perf.sh delete -c 3")
	w.ok("delete", "-c", "3")
	assert.Contains(t, w.stdout.String(), "perf2 is not there")
	assert.NoDirExists(t, w.path("lima/perf3"))
	assert.NoDirExists(t, w.out(), "no results, no directory for them")
}

func TestForeignMachinesAreLeftAlone(t *testing.T) {
	w := newWorld(t, "darwin")
	w.listen(filepath.Join(w.runDir, "socket_vmnet"))
	foreign := w.path("lima/perf2")
	require.NoError(t, os.Mkdir(foreign, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "status"), []byte(statusRunning), 0o600))

	assert.Equal(t, 1, w.perf("create"))
	assert.Equal(t, []string{"limactl list --json"}, w.calls(), "not even perf1 is created")
	assert.Contains(t, w.stderr.String(), "perf2 was not made by test/perf.sh and is left alone")

	w.ok("create", "-c", "1")
	w.calls()
	assert.Equal(t, 1, w.perf("run"))
	assert.Equal(t, 1, w.perf("delete"))
	assert.Equal(t, []string{"limactl list --json", "limactl list --json", "limactl delete --force perf1"}, w.calls(), "its own is deleted")
	assert.DirExists(t, foreign)

	require.NoError(t, mark(foreign), "what the message says lets it be used")
	w.ok("delete")
	assert.NoDirExists(t, foreign)
}

func TestCreateThatFailsHalfWay(t *testing.T) {
	w := newWorld(t, "darwin")
	w.wish("no-image")
	assert.Equal(t, 1, w.perf("create"))
	assert.Contains(t, w.stderr.String(), "cannot download the image")
	w.ok("delete")
	assert.NoDirExists(t, w.path("lima/perf1"), "what is there of it can be deleted")
}

func TestRun(t *testing.T) {
	w := created(t, "2")
	w.ok("run", "-c", "2", "-t3", "-v", "qemu")
	shell := "limactl shell --workdir / "
	assert.Equal(t, []string{
		"limactl list --json",
		`limactl edit perf1 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		`limactl edit perf2 --tty=false --set .vmType = "qemu" | .networks[0].socket = "DIR/run/socket_vmnet"`,
		"limactl start --tty=false perf1",
		"limactl start --tty=false perf2",
		shell + "perf1 sudo systemctl restart iperf3.service",
		shell + "perf1 ip -j -4 addr show dev lima0",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json", "ps",
		"ps", "iperf3-darwin --client 192.168.105.7 --time 3 --json --reverse", "ps",
		"ps", shell + "perf2 iperf3 --client 192.168.105.7 --time 3 --json", "ps",
		"limactl stop perf1", "limactl stop perf2",
	}, withoutProcess(w.calls()))

	dir := filepath.Join(w.out(), "shared-qemu-2")
	for _, direction := range directions {
		b, err := os.ReadFile(filepath.Join(dir, direction+".json"))
		require.NoError(t, err)
		assert.Equal(t, goodResult, string(b), "iperf3's output as it is")
	}
	assert.FileExists(t, filepath.Join(w.out(), marker))
	assert.NoDirExists(t, dir+partSuffix)

	u, err := readUse(filepath.Join(dir, vmToHost))
	require.NoError(t, err)
	assert.Equal(t, rounds.SocketVmnet, u.Relay, "there is no directory beside its socket")
	require.NotNil(t, u.CPUSeconds)
	assert.InDelta(t, 30, *u.CPUSeconds, 1e-9, "ps tells half a minute more each time")
	assert.InDelta(t, 40, *u.CPUPerGB, 1e-9, "30 s for 0.75 GB")
	assert.InDelta(t, 2, *u.MbitPerCPU, 1e-9, "2400 Mbit/s by 1200 %")
	assert.InDelta(t, psResolution, u.CPUResolution, 0)
	assert.Equal(t, uint64(7), *u.Retransmits)
	assert.Equal(t, uint64(12345), *u.ResidentKiB)
	assert.Nil(t, u.Voluntary, "ps does not tell")
	b, err := os.ReadFile(filepath.Join(dir, vmToHost+useSuffix))
	require.NoError(t, err)
	assert.Contains(t, string(b), `"voluntary_switches": null`, "what was not measured is no 0")

	f, err := rounds.Read(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	assert.Contains(t, f.Command, "test/perf.sh run -c 2 -t3 -v qemu")
	assert.Equal(t, "darwin", f.Machine.OS)
	require.Len(t, f.Rounds, 3)
	r := f.Rounds[2]
	assert.Equal(t, []any{"machines", "shared-qemu-2/vm-to-vm", rounds.SocketVmnet, rounds.ClientToClient, 2, 2, 1514, uint64(750000000)},
		[]any{r.Series, r.Setup, r.Relay, r.Direction, r.Clients, r.Active, r.Frame, r.Bytes})
	assert.Equal(t, []string{rounds.HostToClient, rounds.ClientToHost}, []string{f.Rounds[0].Direction, f.Rounds[1].Direction})

	w.ok("run", "-c", "2", "-t3", "-v", "qemu", "-s", filepath.Join(w.runDir, "socket_vmnet"))
	f, err = rounds.Read(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	assert.Len(t, f.Rounds, 3, "those of the same set-up are replaced")
	assert.NotContains(t, f.Command, " && ", "and with them what made them")
	assert.Contains(t, w.stdout.String(), "| shared-qemu-2          | vm-to-vm   |  2.400 |           7 |           40.000 |")

	w.ok("run", "-c", "1", "-t3", "-v", "qemu")
	f, err = rounds.Read(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	assert.Len(t, f.Rounds, 5, "those of another stay")
	assert.Regexp(t, "run -c 2 .* && test/perf.sh run -c 1 ", f.Command)
}

// withoutProcess shortens calls of ps, which have the number of a process.
func withoutProcess(calls []string) []string {
	for i, c := range calls {
		if strings.HasPrefix(c, "ps ") {
			calls[i] = "ps"
		}
	}
	return calls
}

func TestRunBridgedWithOneMachine(t *testing.T) {
	w := created(t, "1")
	w.listen(filepath.Join(w.runDir, "socket_vmnet.bridged.en0"))
	require.NoError(t, os.Mkdir(filepath.Join(w.runDir, "socket_vmnet.bridged.en0.d"), 0o700))
	w.ok("run", "-c", "1", "-b", "en0")
	dir := filepath.Join(w.out(), "bridged-vz-1")
	assert.FileExists(t, filepath.Join(dir, "host-to-vm.json"))
	assert.NoFileExists(t, filepath.Join(dir, "vm-to-vm.json"), "one machine has nobody to talk to")
	u, err := readUse(filepath.Join(dir, hostToVM))
	require.NoError(t, err)
	assert.Equal(t, rounds.DaemonMac, u.Relay, "only socket_vmnet2 has a directory beside its socket")
	assert.Contains(t, quote(w.calls()), `.networks[0].socket = "DIR/run/socket_vmnet.bridged.en0"`)
}

func TestRunStopsWhatIsRunning(t *testing.T) {
	w := created(t, "1")
	require.NoError(t, os.WriteFile(w.path("lima/perf1/status"), []byte(statusRunning), 0o600))
	w.ok("run", "-c", "1")
	assert.Equal(t, "limactl stop perf1", w.calls()[1], "of a run that was killed")
}

func TestRunWithoutProcessorTime(t *testing.T) {
	w := created(t, "1")
	w.wish("no-ps")
	w.ok("run", "-c", "1")
	u, err := readUse(filepath.Join(w.out(), "shared-vz-1", hostToVM))
	require.NoError(t, err)
	assert.Nil(t, u.CPUSeconds)
	assert.Contains(t, u.Note, "what the daemon needed was not measured: ps -o time=,rss= -p")
	assert.InDelta(t, 2.4e9, u.BitsPerSecond, 1, "the rest is there")
}

func TestRunThatFails(t *testing.T) {
	tests := []struct{ name, wish, want string }{
		{"a machine does not boot", "no-start", "perf1 does not boot"},
		{"macOS refuses", "no-route", "No route to host\n  since macOS 15 programs need to be allowed"},
		{"half a result", "half", "vm-to-host: no iperf3 result, or half of one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := created(t, "2")
			w.ok("run", "-c", "2")
			w.calls()
			w.wish(tt.wish)
			assert.Equal(t, 1, w.perf("run", "-c", "2"))
			assert.Contains(t, w.stderr.String(), tt.want)
			calls := w.calls()
			assert.Equal(t, []string{"limactl stop perf1", "limactl stop perf2"}, calls[len(calls)-2:])

			dir := filepath.Join(w.out(), "shared-vz-2")
			for _, direction := range directions {
				assert.FileExists(t, filepath.Join(dir, direction+".json"), "what an earlier run has measured stays")
			}
			assert.DirExists(t, dir+partSuffix)
			assert.Equal(t, 1, w.perf("report"))
			assert.Contains(t, w.stderr.String(), "shared-vz-2.part is half of a run")
		})
	}
}

func TestInterrupt(t *testing.T) {
	w := created(t, "2")
	w.wish("sleep")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- w.main(ctx, []string{"run", "-o", w.out()}) }()
	require.Eventually(t, func() bool { return exists(w.path("sleeping")) }, patience, 10*time.Millisecond)
	cancel()
	select {
	case c := <-code:
		assert.Equal(t, 1, c)
	case <-time.After(patience):
		require.Fail(t, "it does not end")
	}
	assert.Contains(t, w.stderr.String(), "interrupted; what it started has been ended")
	calls := w.calls()
	assert.Equal(t, []string{"limactl stop perf1", "limactl stop perf2"}, calls[len(calls)-2:])
	assert.NoDirExists(t, filepath.Join(w.out(), "shared-vz-2"))
}

func TestCompare(t *testing.T) {
	w := created(t, "2")
	old, fresh := w.path("bin/socket_vmnet"), w.path("bin/socket_vmnet2")
	w.ok("vm-to-vm", "-t", "3", "--old", old, "--new="+fresh)
	var started []string
	calls := withoutProcess(w.calls())
	for _, c := range calls {
		if strings.HasPrefix(c, "sudo ") && !strings.Contains(c, "kill") {
			started = append(started, c)
		}
	}
	start := func(program string) string {
		return "sudo DIR/bin/" + program + " --vmnet-gateway=192.168.105.1 DIR/run/socket_vmnet.perf"
	}
	assert.Equal(t, []string{start("socket_vmnet"), start("socket_vmnet2"), start("socket_vmnet2"), start("socket_vmnet")}, started, "A B B A")
	assert.Equal(t, 4, strings.Count(quote(calls), "sudo kill -TERM "))
	assert.Equal(t, 4, strings.Count(quote(calls), "limactl stop perf2"), "machines have their socket for as long as they run")
	assert.Equal(t, 4, strings.Count(quote(calls), "perf2 iperf3 --client"))
	assert.NotContains(t, quote(calls), "iperf3-darwin", "one direction only")

	dir := filepath.Join(w.out(), "old-new", "shared-vz-2.vm-to-vm")
	for _, name := range []string{"000.old", "000.new", "001.new", "001.old"} {
		b, err := os.ReadFile(filepath.Join(dir, name+".json"))
		require.NoError(t, err)
		assert.Equal(t, goodResult, string(b))
	}
	var u use
	b, err := os.ReadFile(filepath.Join(dir, "001.new"+useSuffix))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &u))
	assert.Equal(t, rounds.DaemonMac, u.Relay)
	require.NotNil(t, u.Drops)
	assert.Equal(t, uint64(4), *u.Drops, "of the clients' last lines in its log")
	u, err = readUse(filepath.Join(dir, "001.old"))
	require.NoError(t, err)
	assert.Equal(t, rounds.SocketVmnet, u.Relay)
	assert.Nil(t, u.Drops, "it does not tell")

	f, err := rounds.Read(filepath.Join(w.out(), roundsFile))
	require.NoError(t, err)
	require.Len(t, f.Rounds, 4)
	assert.Equal(t, "shared-vz-2/vm-to-vm/new", f.Rounds[1].Setup)
	assert.Contains(t, w.stdout.String(), "| shared-vz-2 vm-to-vm | old: socket_vmnet |      2 |  2.400 |")
	assert.Contains(t, w.stdout.String(), "|          1.00x |            1.00x |")
	_, err = listener(filepath.Join(w.runDir, "socket_vmnet.perf"))
	require.Error(t, err, "the daemons have ended")

	w.ok("report")
	assert.Contains(t, w.stdout.String(), "| shared-vz-2 vm-to-vm | new: daemon-macos |")
}

func TestCompareOfSockets(t *testing.T) {
	w := created(t, "1")
	a, b := filepath.Join(w.runDir, "socket_vmnet"), filepath.Join(w.runDir, "other")
	w.listen(b)
	w.ok("host-to-vm", "-c1", "-r1", "--old", a, "--new", b)
	calls := w.calls()
	assert.NotContains(t, quote(calls), "sudo DIR", "both are running")
	assert.Contains(t, quote(calls), `.networks[0].socket = "DIR/run/other"`)
	require.NoError(t, ping(a))
	require.NoError(t, ping(b))
}

func ping(socket string) error {
	_, err := listener(socket)
	return err
}

func TestDaemonThatDoesNotStart(t *testing.T) {
	w := created(t, "2")
	assert.Equal(t, 1, w.perf("run", "-s", w.path("bin/socket_vmnet-broken")))
	assert.Contains(t, w.stderr.String(), "it ended before it was ready\n  socket_vmnet-broken: vmnet_start_interface: not permitted")
	assert.NotContains(t, quote(w.calls()), "limactl start")

	w.listen(filepath.Join(w.runDir, "socket_vmnet.perf"))
	assert.Equal(t, 1, w.perf("run", "-s", w.path("bin/socket_vmnet")))
	assert.Contains(t, w.stderr.String(), "another daemon is running on")
}
