// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The programs that perf calls, in the directory that PATH leads to in tests: this test binary by their names. They keep their
// state in the directory that this variable names, and write there how they were called.
const fakeDirVariable = "PERF_FAKE_DIR"

// patience is how long anything may take.
const patience = 20 * time.Second

var fakes = map[string]func(f fake, args []string) int{
	"limactl": fake.limactl, "iperf3": fake.iperf3, "iperf3-darwin": fake.iperf3, "ps": fake.ps, "sudo": fake.sudo, "ldd": fake.ldd, "vzguest": fake.vzguest, "ip": fake.ip,
	"socket_vmnet": fake.oldDaemon, "socket_vmnet2": fake.newDaemon, "socket_vmnet-broken": fake.brokenDaemon, "qemu-system-x86_64": fake.qemu,
}

func TestMain(m *testing.M) {
	f := fake{name: filepath.Base(os.Args[0]), dir: os.Getenv(fakeDirVariable)}
	if run := fakes[f.name]; run != nil {
		f.record(os.Args[1:])
		os.Exit(run(f, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// A fake is a program.
type fake struct{ name, dir string }

func (f fake) path(name string) string { return filepath.Join(f.dir, name) }

// has reports whether a test wants something special.
func (f fake) has(wish string) bool { return exists(f.path("wish." + wish)) }

func (f fake) record(args []string) {
	log, err := os.OpenFile(f.path("calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(log, strings.Join(append([]string{f.name}, args...), " "))
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		panic(err)
	}
}

func (f fake) fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, f.name+": "+format+"\n", args...)
	return 1
}

// limactl keeps a directory for each machine, with its status in a file.
func (f fake) limactl(args []string) int {
	machine := func(name string) string { return filepath.Join(f.path("lima"), name) }
	status := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(machine(name), "status"))
		return string(b)
	}
	set := func(name, to string) int {
		if err := os.WriteFile(filepath.Join(machine(name), "status"), []byte(to), 0o600); err != nil {
			return f.fail("%v", err)
		}
		return 0
	}
	last := args[len(args)-1]
	switch args[0] {
	case "list":
		entries, _ := os.ReadDir(f.path("lima"))
		for _, e := range entries {
			b, _ := json.Marshal(instance{Name: e.Name(), Status: status(e.Name()), Dir: machine(e.Name())})
			fmt.Println(string(b))
		}
		return 0
	case "create":
		name := strings.TrimPrefix(args[1], "--name=")
		if err := os.Mkdir(machine(name), 0o700); err != nil {
			return f.fail("%v", err)
		}
		if f.has("no-image") {
			return f.fail("cannot download the image")
		}
		return set(name, "Stopped")
	case "edit":
		if status(args[1]) != "Stopped" {
			return f.fail("cannot edit a running instance")
		}
		return 0
	case "start":
		if f.has("no-start") {
			return f.fail("%s does not boot", last)
		}
		return set(last, statusRunning)
	case "stop":
		return set(last, "Stopped")
	case "delete":
		if err := os.RemoveAll(machine(last)); err != nil {
			return f.fail("%v", err)
		}
		return 0
	case "shell":
		if status(args[3]) != statusRunning {
			return f.fail("%s is not running", args[3])
		}
		return f.inMachine(args[4:])
	}
	return f.fail("no command %s", args[0])
}

func (f fake) inMachine(command []string) int {
	switch command[0] {
	case "ip":
		fmt.Println(`[{"ifname":"lima0","addr_info":[{"family":"inet","local":"192.168.105.7","prefixlen":24}]}]`)
		return 0
	case "iperf3":
		return f.iperf3(command[1:])
	}
	return 0
}

// goodResult is what iperf3 prints, the parts that matter.
const goodResult = `{
	"start": {"timestamp": {"timesecs": 1763780000}, "test_start": {"protocol": "TCP", "duration": 3}},
	"end": {
		"sum_sent": {"seconds": 3, "bytes": 1000000000, "bits_per_second": 2.6e9, "retransmits": 7, "sender": true},
		"sum_received": {"seconds": 2.5, "bytes": 750000000, "bits_per_second": 2.4e9, "sender": true}
	}
}
`

func (f fake) iperf3(args []string) int {
	reverse := slices.Contains(args, "--reverse")
	switch {
	case f.has("no-route"):
		fmt.Println(`{"start":{},"end":{},"error":"unable to connect to server: No route to host"}`)
		return 1
	case f.has("half") && reverse:
		fmt.Print(goodResult[:len(goodResult)/2])
		return 0
	case f.has("sleep"):
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt)
		_ = os.WriteFile(f.path("sleeping"), nil, 0o600)
		<-c
		return 1
	}
	fmt.Print(goodResult)
	return 0
}

// ps tells of half a second more each time.
func (f fake) ps([]string) int {
	b, _ := os.ReadFile(f.path("calls"))
	n := strings.Count(string(b), "ps -o")
	if f.has("no-ps") {
		return f.fail("no such process")
	}
	fmt.Printf("  %d:%02d.50 12345\n", n/2, n%2*30)
	return 0
}

func (f fake) sudo(args []string) int {
	if args[0] == "kill" { // every system has it, but not every container as a program
		args = append([]string{"sh", "-c", "kill \"$@\"", "kill"}, args[1:]...)
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	return f.fail("%v", err)
}

func (f fake) ldd([]string) int {
	fmt.Print("\tlinux-vdso.so.1 (0x00007ff42e494000)\n\tlibiperf.so.0 => " + f.path("lib/libiperf.so.0") + " (0x00007ff42e44a000)\n" +
		"\t" + f.path("lib/ld-linux-x86-64.so.2") + " (0x00007ff42e496000)\n")
	return 0
}

func (f fake) qemu([]string) int {
	fmt.Println("QEMU emulator version 9.2.0")
	return 0
}

// vzguest has a shell on its console, as a guest has, and does not show everything at once.
func (f fake) vzguest([]string) int {
	fmt.Print("[    0.000000] Linux version 6\r\n~ # ")
	return f.fail("%v", syscall.Exec("/bin/sh", []string{"sh"}, os.Environ()))
}

func (f fake) ip([]string) int {
	fmt.Println("2: eth0    inet 192.168.105.9/24 brd 192.168.105.255 scope global eth0")
	return 0
}

func (f fake) brokenDaemon([]string) int { return f.fail("vmnet_start_interface: not permitted") }

func (f fake) oldDaemon(args []string) int { return f.serve(args[len(args)-1]) }

func (f fake) newDaemon(args []string) int {
	socket := args[len(args)-1]
	if err := os.Mkdir(socket+".d", 0o700); err != nil {
		return f.fail("%v", err)
	}
	defer os.Remove(socket + ".d")
	fmt.Fprintln(os.Stderr, "INFO | client gone client=1 drop_queue_full=3 drop_runt=1 frames_to_net=9\nINFO | other drop_queue_full=100")
	return f.serve(socket)
}

// serve takes connections until SIGTERM.
func (f fake) serve(socket string) int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return f.fail("%v", err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	<-c
	return 0
}

// A world is a setting of fakes.
type world struct {
	*setting
	fake
	t      *testing.T
	stdout *record
	stderr *record
}

// newWorld makes a directory with the fakes of these names, or all of them, and lets PATH lead there and to what the system
// needs for itself.
func newWorld(t *testing.T, goos string, names ...string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "perf") // sockets have short paths
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	require.NoError(t, err)
	for _, sub := range []string{"bin", "lima", "run", "lib"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	for name := range fakes {
		if len(names) == 0 || slices.Contains(names, name) {
			require.NoError(t, os.Symlink(self, filepath.Join(dir, "bin", name)))
		}
	}
	for _, name := range []string{"sh", "git", "uname"} {
		if path, err := exec.LookPath(name); err == nil {
			require.NoError(t, os.Symlink(path, filepath.Join(dir, "bin", name)))
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	t.Setenv(fakeDirVariable, dir)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or each of the fakes takes a second to end where the race detector is on
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	w := &world{fake: fake{dir: dir}, t: t, stdout: &record{}, stderr: &record{}}
	w.setting = &setting{
		goos: goos, uid: 501, root: root, runDir: filepath.Join(dir, "run"), cache: filepath.Join(dir, "cache"), patience: patience,
		stdout: w.stdout, stderr: w.stderr,
	}
	return w
}

// wish asks the fakes for something special.
func (w *world) wish(what string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.path("wish."+what), nil, 0o600))
}

// out is the directory for results.
func (w *world) out() string { return w.path("out") }

// perf is a call of the program, with -o in front of a verb's options.
func (w *world) perf(args ...string) int {
	w.t.Helper()
	code := w.main(w.t.Context(), append(args, "-o", w.out()))
	w.t.Logf("%s: code %d\n%s%s", quote(args), code, w.stdout, w.stderr)
	return code
}

// ok is a call that must succeed.
func (w *world) ok(args ...string) {
	w.t.Helper()
	require.Zero(w.t, w.perf(args...))
}

// calls are those of the fakes since the last time, with the names of directories taken out. Machines start at the same time,
// so those calls are put in order.
func (w *world) calls() []string {
	w.t.Helper()
	b, err := os.ReadFile(w.path("calls"))
	if err != nil {
		return nil
	}
	require.NoError(w.t, os.Remove(w.path("calls")))
	text := strings.NewReplacer(w.dir, "DIR", w.root, "ROOT").Replace(string(b))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	isStart := func(s string) bool { return strings.HasPrefix(s, "limactl start") }
	for i := 0; i < len(lines); i++ {
		n := i
		for n < len(lines) && isStart(lines[n]) {
			n++
		}
		slices.Sort(lines[i:n])
		i = max(i, n)
	}
	return lines
}

// listen puts the socket of a running daemon at path: this process's.
func (w *world) listen(path string) {
	w.t.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
}
