// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// lima are virtual machines of Lima on macOS.
type lima struct {
	*perf
	iperf   string // on the host
	address string // of perf1
	started int    // machines
}

// An instance is what limactl list tells of a machine.
type instance struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// list asks limactl for all machines.
func (l *lima) list(ctx context.Context) (map[string]instance, error) {
	if _, err := exec.LookPath("limactl"); err != nil {
		return nil, errors.New("limactl is missing: brew install lima, or see https://lima-vm.io/docs/installation")
	}
	out, err := output(ctx, "limactl", "list", "--json")
	if err != nil {
		return nil, err
	}
	found := map[string]instance{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var i instance
		if err := dec.Decode(&i); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what limactl list --json prints: %w", err)
		}
		found[i.Name] = i
	}
}

func (l *lima) create(ctx context.Context, count int) error {
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		if _, ok := all[name(n)]; ok {
			l.say("%s is there already", name(n))
			continue
		}
		l.say("Creating %s", name(n))
		if _, err := output(ctx, "limactl", "create", "--name="+name(n), "--tty=false", "--set", l.vmTypeExpression(),
			filepath.Join(l.root, "test", "perf", "lima.yaml")); err != nil {
			return err
		}
	}
	return nil
}

func (l *lima) vmTypeExpression() string { return fmt.Sprintf(".vmType = %q", l.vm) }

func (l *lima) remove(ctx context.Context, count int) error {
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for n := 1; n <= count; n++ {
		if _, ok := all[name(n)]; !ok {
			l.say("%s is not there", name(n))
			continue
		}
		l.say("Deleting %s", name(n))
		_, err := output(ctx, "limactl", "delete", "--force", name(n))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *lima) check(ctx context.Context, count int) (err error) {
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		if _, ok := all[name(n)]; !ok {
			return fmt.Errorf("there is no machine %s: test/perf.sh create -c %d", name(n), count)
		}
	}
	if l.iperf, err = findIperf(); err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		if all[name(n)].Status == "Running" { // after a run that was killed
			l.say("Stopping %s, which is running", name(n))
			if _, err := output(ctx, "limactl", "stop", name(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lima) start(ctx context.Context, count int, d *daemon) error {
	for n := 1; n <= count; n++ {
		expr := l.vmTypeExpression() + fmt.Sprintf(" | .networks[0].socket = %q", d.socket)
		if _, err := output(ctx, "limactl", "edit", name(n), "--tty=false", "--set", expr); err != nil {
			return err
		}
	}
	l.started = count
	err := lab.Together(count, func(i int) error {
		_, err := output(ctx, "limactl", "start", "--tty=false", name(i+1))
		return err
	})
	if err != nil {
		return err
	}
	if _, err := output(ctx, l.inMachine(1, "sudo", "systemctl", "restart", "iperf3.service")...); err != nil {
		return err
	}
	return l.await(ctx, func() error { // perf1's address in the daemon's network
		out, err := output(ctx, l.inMachine(1, "ip", "-4", "-o", "addr", "show", "dev", "lima0")...)
		if err != nil {
			return err
		}
		m := inetRE.FindSubmatch(out)
		if m == nil {
			return errors.New("lima0 of vmnet2-perf1 has no address: does the daemon's DHCP server work?")
		}
		l.address = string(m[1])
		return nil
	})
}

// inMachine is the command that runs another in machine n.
func (l *lima) inMachine(n int, command ...string) []string {
	return append([]string{"limactl", "shell", "--workdir", "/", name(n)}, command...)
}

func (l *lima) transfer(ctx context.Context, direction string, seconds int) ([]byte, error) {
	args := clientArgs(l.address, seconds)
	switch direction {
	case vmToVM:
		return iperfOutput(ctx, seconds, l.inMachine(2, append([]string{"iperf3"}, args...)...)...)
	case vmToHost: // the host opens the connection
		args = append(args, "--reverse")
	}
	return iperfOutput(ctx, seconds, append([]string{l.iperf}, args...)...)
}

func (l *lima) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	var errs []error
	for n := 1; n <= l.started; n++ {
		if _, err := output(ctx, "limactl", "stop", name(n)); err != nil {
			_, err = output(ctx, "limactl", "stop", "--force", name(n))
			errs = append(errs, err)
		}
	}
	l.started = 0
	return errors.Join(errs...)
}
