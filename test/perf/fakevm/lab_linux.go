// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

//go:embed csrc/*.c csrc/*.h
var sources embed.FS

// A lab has the programs and the namespaces. The namespaces stay from one measurement to the next; the relay and the fake VMs
// are new each time.
type lab struct {
	o       Options
	dir     string
	vm      string // path of the VM side
	echo    string // path of the program that measures round trips
	rig     *rig.Rig
	relays  string // path of the C relays
	iperf3  string
	host    *space   // where relays run
	guests  []*space // as many as the largest set-up needs
	counter int      // names the sockets
}

// newLab finds and builds what the set-ups need. The caller must close the lab.
func newLab(ctx context.Context, o Options, setups []setup) (*lab, error) {
	l := &lab{o: o}
	err := errors.Join(checkRights(os.Geteuid(), tunDevice), l.findTools(setups))
	if err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp("", "fakevm"); err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	l.o.progress("compiling the C programs")
	if err = errors.Join(os.CopyFS(l.dir, sources), l.compile(ctx)); err == nil {
		l.rig, err = rig.New(ctx, rig.Options{Daemon: l.o.Daemon})
	}
	if err == nil {
		l.relays = l.rig.Relays()
		err = l.makeSpaces(setups)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// tunDevice makes TAP devices.
const tunDevice = "/dev/net/tun"

// checkRights tells early and clearly what making a namespace or a TAP device would fail with.
func checkRights(euid int, device string) error {
	if euid != 0 {
		return fmt.Errorf("%w: network namespaces and TAP devices need root; run it with sudo or in a container of your own", ErrUnable)
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w; load the module (modprobe tun), or give the container the device (--device=%s)", ErrUnable, err, device)
	}
	return f.Close()
}

// findTools finds the programs that the set-ups need.
func (l *lab) findTools(setups []setup) error {
	var errs []error
	find := func(program, how string) string {
		found, err := exec.LookPath(program)
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %w; %s", ErrUnable, err, how))
		}
		return found
	}
	find("gcc", "install it: apt-get install gcc libc6-dev")
	find("ip", "install it: apt-get install iproute2")
	l.iperf3 = find("iperf3", "install it: apt-get install iperf3")
	uses := func(relay string) bool {
		return slices.ContainsFunc(setups, func(s setup) bool { return s.relay == relay })
	}
	l.o.Daemon = find(l.o.Daemon, "build the daemon: make build")
	if uses(rounds.Gvproxy) {
		l.o.Gvproxy = find(cmp.Or(l.o.Gvproxy, os.Getenv("E2E_GVPROXY"), cachedGvproxy()), "get it: test/e2e/setup.sh perf, or name one with --gvproxy")
	}
	return errors.Join(errs...)
}

// cachedGvproxy is where test/e2e/setup.sh has put gvproxy, or else a name to look up in PATH.
func cachedGvproxy() string {
	cache := os.Getenv("E2E_CACHE")
	if cache == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			cache = filepath.Join(dir, "socket_vmnet2", "e2e")
		}
	}
	if found := filepath.Join(cache, "gvproxy-1", "gvproxy"); cache != "" && exists(found) {
		return found
	}
	return "gvproxy"
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// compile makes the C programs.
func (l *lab) compile(ctx context.Context) error {
	l.vm, l.echo = filepath.Join(l.dir, "fakevm"), filepath.Join(l.dir, "echo")
	return errors.Join(l.gcc(ctx, l.vm, "fakevm.c", "tap.c", "pump.c", "offload.c"), l.gcc(ctx, l.echo, "echo.c"))
}

func (l *lab) gcc(ctx context.Context, program string, files ...string) error {
	args := []string{"-O2", "-Wall", "-Wextra", "-pthread", "-o", program}
	for _, f := range files {
		args = append(args, filepath.Join(l.dir, "csrc", f))
	}
	if out, err := exec.CommandContext(ctx, "gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s with gcc: %w: %s", files[0], err, out)
	}
	return nil
}

// makeSpaces makes the host and as many guests as the largest set-up has.
func (l *lab) makeSpaces(setups []setup) error {
	var err error
	if l.host, err = newSpace(); err != nil {
		return err
	}
	for _, s := range setups {
		for len(l.guests) < s.clients {
			guest, err := newSpace()
			if err != nil {
				return err
			}
			l.guests = append(l.guests, guest)
		}
	}
	return nil
}

func (l *lab) close() error {
	if l.host != nil {
		l.host.close()
	}
	for _, guest := range l.guests {
		guest.close()
	}
	if l.rig != nil {
		l.rig.Close()
	}
	return os.RemoveAll(l.dir)
}

// path returns a name in the lab's directory that was not used before.
func (l *lab) path(name string) string {
	l.counter++
	return filepath.Join(l.dir, fmt.Sprintf("%s%d", name, l.counter))
}
