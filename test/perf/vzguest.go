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
)

// vzguests are guests of test/vzguest on macOS. Unlike Lima's they read their frames from a descriptor that the daemon has
// passed, so this measures the short way between the daemon and Apple's framework. The kernel and the initial RAM disk are
// the user's.
type vzguests struct {
	*perf
	program, kernel, initrd string
	iperf                   string // on the host
	consoles                []*console
	address                 string // of perf1
}

// check looks for everything that machines need.
func (v *vzguests) check(context.Context, int) (err error) {
	if v.iperf, err = findIperf(); err != nil {
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

// create has nothing to make: a guest is its kernel and initial RAM disk.
func (v *vzguests) create(ctx context.Context, count int) error { return v.check(ctx, count) }

func (v *vzguests) remove(context.Context, int) error {
	v.say("Guests of vzguest leave nothing behind")
	return nil
}

func (v *vzguests) attach(ctx context.Context, src source) (*daemon, error) {
	d, err := v.attachAsRoot(ctx, src)
	if err == nil && !exists(d.socket+".d") {
		err = fmt.Errorf("-v vzguest needs a daemon that passes descriptors, socket_vmnet2: there is no %s.d", d.socket)
		if d.stop != nil {
			err = errors.Join(err, d.stop())
		}
		return nil, err
	}
	return d, err
}

func (v *vzguests) start(ctx context.Context, count int, d *daemon) error {
	for n := 1; n <= count; n++ {
		c, err := startConsole(name(n), v.program, "--socket", d.socket, "--name", name(n), "--mac", mac(n),
			"--kernel", v.kernel, "--initrd", v.initrd, "--cpus", "2", "--memory", "1024")
		if err != nil {
			return err
		}
		v.consoles = append(v.consoles, c)
	}
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	addresses, errs := make([]string, count), make([]error, count)
	var wg sync.WaitGroup
	for i, c := range v.consoles {
		wg.Go(func() {
			if errs[i] = c.ready(ctx); errs[i] == nil {
				addresses[i], errs[i] = waitForAddress(ctx, c)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	v.address = addresses[0]
	_, err := v.consoles[0].run(ctx, "iperf3 --server --daemon")
	return err
}

// inetRE finds the address in what "ip -4 -o addr" prints.
var inetRE = regexp.MustCompile(`\binet (\d+\.\d+\.\d+\.\d+)/`)

// waitForAddress waits for the address of a machine, which its DHCP client sets.
func waitForAddress(ctx context.Context, c *console) (string, error) {
	for {
		out, err := c.run(ctx, "ip -4 -o addr show dev eth0")
		if m := inetRE.FindStringSubmatch(out); m != nil && err == nil {
			return m[1], nil
		}
		if err != nil {
			return "", fmt.Errorf("%s gets no address: %w", c.name, err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s gets no address: %w", c.name, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v *vzguests) transfer(ctx context.Context, direction string, seconds int) ([]byte, error) {
	if direction != vmToVM {
		return fromHost(ctx, v.iperf, v.address, direction, seconds)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+slack)
	defer cancel()
	out, err := v.consoles[1].run(ctx, quote(append([]string{"iperf3"}, clientArgs(v.address, seconds)...)))
	return []byte(out), err
}

func (v *vzguests) stop(context.Context) error {
	var wg sync.WaitGroup
	for _, c := range v.consoles {
		wg.Go(c.stop)
	}
	wg.Wait()
	v.consoles = nil
	return nil
}
