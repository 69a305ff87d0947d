// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"os"
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

const patience = 20 * time.Second

// fakes are scripts in the place of the programs that perf calls. Each writes to $FAKE/calls how it was called; a file named
// $FAKE/wish.X asks for something special. limactl keeps the status of each machine in a file.
var fakes = map[string]string{
	"limactl": `
m=$FAKE/lima; for last; do :; done
case $1 in
list) for d in "$m"/*; do test -d "$d" && echo "{\"name\":\"${d##*/}\",\"status\":\"$(cat "$d/status")\",\"dir\":\"$d\"}"; done; exit 0 ;;
create) n=${2#--name=}; mkdir "$m/$n" && echo Stopped >"$m/$n/status" ;;
edit) grep -q Stopped "$m/$2/status" ;;
start) test ! -e "$FAKE/wish.no-start" || { echo "$last does not boot" >&2; exit 1; }; echo Running >"$m/$last/status" ;;
stop) echo Stopped >"$m/$last/status" ;;
delete) rm -r "${m:?}/$last" ;;
shell) grep -q Running "$m/$4/status" || exit 1
	case $5 in ip) exec ip ;; iperf3) shift 5; exec iperf3 "$@" ;; esac ;;
esac`,
	"ip": `echo '2: lima0    inet 192.168.105.7/24 brd 192.168.105.255 scope global lima0'`,
	"iperf3": `
case "$*" in *--server*) exit ;; *--reverse*) test ! -e "$FAKE/wish.half" || { echo '{"end":'; exit; } ;; esac
test ! -e "$FAKE/wish.no-route" || { echo '{"error":"unable to connect: No route to host"}'; exit 1; }
if test -e "$FAKE/wish.sleep"; then : >"$FAKE/sleeping"; exec sleep 1000; fi
cat "$FAKE/good.json"`,
	"ps":     `n=$(grep -c "^ps" "$FAKE/calls"); echo "  $n:00.50"`, // a minute more each time
	"sudo":   `exec "$@"`,
	"ldd":    `printf '\tlinux-vdso.so.1 (0x7f)\n\tlibiperf.so.0 => %s (0x7f)\n\t%s (0x7f)\n' "$FAKE/lib/libiperf.so.0" "$FAKE/lib/ld-linux-x86-64.so.2"`,
	"broken": `echo "vmnet_start_interface: not permitted" >&2; exit 1`,
}

// goodResult is what iperf3 prints, the parts that matter.
const goodResult = `{"end": {"sum_sent": {"seconds": 3, "bytes": 1000000000, "retransmits": 7},
	"sum_received": {"seconds": 2.5, "bytes": 750000000, "bits_per_second": 2.4e9}}}
`

// TestMain is also the daemon that tests start: this binary by the name socket_vmnet.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "socket_vmnet" {
		goleak.VerifyTestMain(m)
		return
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	l, err := net.Listen("unix", os.Args[len(os.Args)-1])
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			if c, err := l.Accept(); err == nil {
				_ = c.Close()
			}
		}
	}()
	<-stop
	_ = l.Close()
}

// A world is a call's surroundings, of fakes.
type world struct {
	*perf
	t              *testing.T
	dir            string
	stdout, stderr bytes.Buffer
}

func newWorld(t *testing.T, goos string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "perf") // sockets have short paths
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"bin", "lima", "run", "lib"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	w := &world{t: t, dir: dir}
	for name, script := range fakes {
		w.write("bin/"+name, "#!/bin/sh\necho \"${0##*/} $*\" >>\"$FAKE/calls\"\n"+script+"\n", 0o755)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, w.path("bin/socket_vmnet")))
	require.NoError(t, os.Symlink("iperf3", w.path("bin/iperf3-darwin")))
	w.write("good.json", goodResult, 0o600)
	t.Setenv("PATH", w.path("bin")+":"+os.Getenv("PATH"))
	t.Setenv("FAKE", dir)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or the daemon takes a second to end where the race detector is on
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	t.Chdir(root)
	w.perf = &perf{goos: goos, uid: 501, root: root, runDir: w.path("run"), patience: patience, stdout: &w.stdout, stderr: &w.stderr}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), mode))
}

// call runs the program with its results below the world's directory and returns the exit code.
func (w *world) call(ctx context.Context, args ...string) int {
	w.t.Helper()
	code := w.main(ctx, append(args, "-o", w.path("out")))
	w.t.Logf("%s: code %d\n%s%s", strings.Join(args, " "), code, &w.stdout, &w.stderr)
	return code
}

// ok is a call that must succeed.
func (w *world) ok(args ...string) {
	w.t.Helper()
	require.Zero(w.t, w.call(w.t.Context(), args...))
}

// fails is a call that must fail and say so.
func (w *world) fails(says string, args ...string) {
	w.t.Helper()
	require.Equal(w.t, 1, w.call(w.t.Context(), args...))
	require.Contains(w.t, w.stderr.String(), says)
}

// calls are those of the fakes since the last time, without the numbers of processes and with the names of directories taken
// out. Machines start at the same time, so those calls are put in order.
func (w *world) calls() []string {
	w.t.Helper()
	b, err := os.ReadFile(w.path("calls"))
	require.NoError(w.t, err)
	require.NoError(w.t, os.Remove(w.path("calls")))
	lines := strings.Split(strings.TrimSpace(strings.NewReplacer(w.dir, "DIR", w.root, "ROOT").Replace(string(b))), "\n")
	start := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "limactl start") })
	if start >= 0 && start+1 < len(lines) && strings.HasPrefix(lines[start+1], "limactl start") {
		slices.Sort(lines[start : start+2])
	}
	for i, l := range lines {
		if strings.HasPrefix(l, "ps ") {
			lines[i] = "ps"
		}
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
