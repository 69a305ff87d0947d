// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// vzguest is the name of the type.
const vzguest = "vzguest"

// vzguests are guests of test/vzguest on macOS. Unlike Lima's they read their frames from a descriptor that the daemon has
// passed, so this measures the short way between the daemon and Apple's framework. The kernel and the initial RAM disk are
// the user's.
type vzguests struct {
	cabinet
	options

	program, kernel, initrd string
	iperf                   string // on the host
	consoles                []*console
	address                 string // of perf1
}

// findTools looks for everything that machines need.
func (v *vzguests) findTools() (err error) {
	if v.iperf, err = findIperf(v.goos); err != nil {
		return err
	}
	v.program = os.Getenv("PERF_VZGUEST")
	if v.program == "" {
		v.program = filepath.Join(v.root, "bin", "vzguest")
	}
	if v.program, err = exec.LookPath(v.program); err != nil {
		return fmt.Errorf("find vzguest: %w. Build and sign it as test/vzguest/README.md has it, or name it with PERF_VZGUEST", err)
	}
	v.kernel, v.initrd = os.Getenv("PERF_KERNEL"), os.Getenv("PERF_INITRD")
	for _, f := range []string{v.kernel, v.initrd} {
		if !exists(f) {
			return errors.New("PERF_KERNEL and PERF_INITRD are to name a Linux kernel and an initial RAM disk with a shell on hvc0, " +
				"DHCP on eth0 and iperf3: test/perf/README.md")
		}
	}
	return nil
}

func (v *vzguests) create(_ context.Context, count int) error {
	if err := v.findTools(); err != nil {
		return err
	}
	if err := v.fill(count); err != nil {
		return err
	}
	v.say("Ready: test/perf.sh run -c %d -v vzguest", count)
	return nil
}

func (v *vzguests) check(_ context.Context, count int) error {
	if err := v.look(count); err != nil {
		return err
	}
	return v.findTools()
}

// attach is Lima's: the daemons are the same.
func (v *vzguests) attach(ctx context.Context, src source) (*daemon, error) {
	d, err := (&lima{setting: v.setting, options: v.options}).attach(ctx, src)
	if err == nil && d.relay != rounds.DaemonMac {
		err = fmt.Errorf("-v vzguest needs a daemon that passes descriptors, socket_vmnet2: there is no %s.d", d.socket)
		return nil, errors.Join(err, d.end())
	}
	return d, err
}

func (v *vzguests) start(ctx context.Context, count int, d *daemon) error {
	for n := 1; n <= count; n++ {
		m, err := v.describe(n)
		if err != nil {
			return err
		}
		c, err := startConsole(name(n), v.program, "--socket", d.socket, "--name", name(n), "--mac", m.MAC,
			"--kernel", v.kernel, "--initrd", v.initrd, "--cpus", "2", "--memory", "1024")
		if err != nil {
			return err
		}
		v.consoles = append(v.consoles, c)
	}
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	errs := make([]error, count)
	var wg sync.WaitGroup
	for i, c := range v.consoles {
		wg.Go(func() {
			if errs[i] = c.ready(ctx); errs[i] == nil {
				errs[i] = v.configure(ctx, c, i == 0)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := v.consoles[0].run(ctx, "iperf3 --server --daemon")
	return err
}

var inetRE = regexp.MustCompile(`\binet (\d+\.\d+\.\d+\.\d+)/`)

// configure waits for the address of a machine.
func (v *vzguests) configure(ctx context.Context, c *console, first bool) error {
	for {
		out, err := c.run(ctx, "ip -4 -o addr show dev eth0")
		m := inetRE.FindStringSubmatch(out)
		switch {
		case err != nil:
			return fmt.Errorf("%s gets no address: %w", c.name, err)
		case m != nil && first:
			v.address = m[1]
			fallthrough
		case m != nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s gets no address: %w", c.name, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v *vzguests) transfer(ctx context.Context, direction string, seconds int) ([]byte, error) {
	args := clientArgs(v.address, seconds)
	if direction == vmToVM {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+slack)
		defer cancel()
		out, err := v.consoles[1].run(ctx, quote(append([]string{"iperf3"}, args...)))
		return []byte(out), err
	}
	if direction == vmToHost {
		args = append(args, "--reverse")
	}
	return iperfOutput(ctx, seconds, append([]string{v.iperf}, args...)...)
}

func (v *vzguests) remove(_ context.Context, count int) error { return v.empty(count) }

func (v *vzguests) stop(context.Context) error {
	var wg sync.WaitGroup
	for _, c := range v.consoles {
		wg.Go(c.stop)
	}
	wg.Wait()
	v.consoles = nil
	return nil
}

func (v *vzguests) close() error { return nil }
