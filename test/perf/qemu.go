// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// qemu are the QEMU guests of test/e2e on Linux, with iperf3 in their image. They have no disks: a machine that exists is a
// directory with a file that says so, and its MAC address.
type qemu struct {
	cabinet
	options

	iperf  string // on the host
	tools  lab.Tools
	lab    *lab.Lab
	guests []*lab.Guest
	host   string // the host's address for guests, empty behind the stand-in
	server string // perf1's address
}

// findTools looks for everything that machines need.
func (q *qemu) findTools() (err error) {
	if q.iperf, err = findIperf(q.goos); err != nil {
		return err
	}
	q.tools, err = lab.FindTools(false)
	return err
}

func (q *qemu) create(_ context.Context, count int) error {
	if err := q.findTools(); err != nil {
		return err
	}
	if err := q.fill(count); err != nil {
		return err
	}
	q.say("Ready: test/perf.sh run -c %d", count)
	return nil
}

func (q *qemu) remove(_ context.Context, count int) error { return q.empty(count) }

func (q *qemu) check(ctx context.Context, count int) error {
	if err := q.look(count); err != nil {
		return err
	}
	if err := q.findTools(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "perf")
	if err != nil {
		return fmt.Errorf("make a directory for the guests' iperf3: %w", err)
	}
	defer os.RemoveAll(dir)
	files, err := guestFiles(ctx, q.iperf, dir)
	if err != nil {
		return err
	}
	q.tools.Helper = filepath.Join(dir, "guest")
	if err := q.buildGo(ctx, "./test/lab/guest", q.tools.Helper); err != nil {
		return err
	}
	q.lab, err = lab.New(ctx, lab.Options{Tools: q.tools, Files: files, Progress: func(who, what string) { q.say("%s %s", who, what) }})
	if err != nil {
		return err
	}
	q.say("The processor of these machines is emulated (TCG), which bounds Mbit/s long before the daemon does. Compare what the daemon needs for a GB")
	return nil
}

func (q *qemu) close() error {
	if q.lab == nil {
		return nil
	}
	return q.lab.Close()
}

func (q *qemu) attach(ctx context.Context, src source) (*daemon, error) {
	switch {
	case src.socket != "":
		return q.running(src)
	case src.name == wordFlood:
		return q.startFlood(ctx, q.lab)
	case src.name == wordTree:
		src.program = q.lab.Path("socket_vmnet2")
		if _, err := os.Stat(src.program); err != nil { // once is enough
			if src.program, err = q.build(ctx, q.lab.Dir); err != nil {
				return nil, err
			}
		}
	}
	src.socket = q.lab.Path("socket_vmnet")
	d, err := q.lab.StartDaemon(ctx, src.program, []string{"--vmnet-gateway=" + gateway, src.socket})
	if err != nil {
		return nil, err
	}
	return &daemon{
		source: src, relay: rounds.Daemon, pid: d.Pid(), log: d.Output().String,
		stop: func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
			defer cancel()
			if _, err := d.Stop(ctx, os.Interrupt); err != nil {
				d.Kill()
				return err
			}
			return nil
		},
	}, nil
}

func (q *qemu) start(ctx context.Context, count int, d *daemon) error {
	q.guests = make([]*lab.Guest, count)
	errs := make([]error, count)
	var wg sync.WaitGroup
	for n := 1; n <= count; n++ {
		wg.Go(func() { q.guests[n-1], errs[n-1] = q.boot(ctx, n, d) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for n := 1; n <= count; n++ {
		if err := q.configure(ctx, n, d.relay == rounds.Old); err != nil {
			return err
		}
	}
	_, err := q.guests[0].Must(ctx, "iperf3 --server --daemon")
	return err
}

func (q *qemu) boot(ctx context.Context, n int, d *daemon) (*lab.Guest, error) {
	m, err := q.describe(n)
	if err != nil {
		return nil, err
	}
	// A name for each boot: the lab has a directory for it.
	return q.lab.Boot(ctx, lab.GuestOptions{
		Name: fmt.Sprintf("%s-%d", name(n), time.Now().UnixMilli()), MAC: m.MAC, Netdev: lab.StreamNetdev(d.socket, 0),
	})
}

// configure gives a machine its address: a leased one, or behind the stand-in, which has no DHCP server, one of its own.
func (q *qemu) configure(ctx context.Context, n int, fixed bool) error {
	ctx, cancel := context.WithTimeout(ctx, q.patience)
	defer cancel()
	g := q.guests[n-1]
	address := fmt.Sprintf("192.168.105.%d", 100+n)
	if fixed {
		if _, err := g.Must(ctx, "ip addr add "+address+"/24 dev eth0"); err != nil {
			return err
		}
		q.host = ""
	} else {
		r, err := g.Must(ctx, "dhcp")
		if err != nil {
			return fmt.Errorf("%s gets no address: %w", name(n), err)
		}
		address = r.Values()["ip"]
		q.host = ""
		if host, err := g.Resolve(ctx, "host.internal"); err == nil {
			q.host = host
		}
	}
	if n == 1 {
		q.server = address
	}
	return nil
}

func (q *qemu) transfer(ctx context.Context, direction string, seconds int) ([]byte, error) {
	if direction == vmToVM {
		return q.inGuest(ctx, 2, seconds, clientArgs(q.server, seconds))
	}
	if q.host == "" {
		return nil, fmt.Errorf("%s: the daemon has no address of the host for its machines; measure vm-to-vm", direction)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// The user-space network lets connections out and none in, so the machine opens it in both directions.
	more := []string{"--port", port}
	if direction == hostToVM {
		more = append(more, "--reverse")
	}
	server, err := q.lab.Start("iperf3", q.iperf, "--server", "--bind", "127.0.0.1", "--port", port)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	err = q.await(ctx, func() error {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("start iperf3 on the host: %w%s", err, lastLines(server.Output().String()))
	}
	return q.inGuest(ctx, 1, seconds, clientArgs(q.host, seconds, more...))
}

// inGuest runs iperf3 in machine n.
func (q *qemu) inGuest(ctx context.Context, n, seconds int, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+slack)
	defer cancel()
	r, err := q.guests[n-1].Run(ctx, quote(append([]string{"iperf3"}, args...)))
	if err == nil && r.Code != 0 {
		_, err = parseTransfer([]byte(r.Output))
		err = fmt.Errorf("iperf3 in %s ended with code %d: %w", name(n), r.Code, err)
	}
	return []byte(r.Output), err
}

// freePort is a TCP port of the loopback that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func (q *qemu) stop(context.Context) error {
	for _, g := range q.guests {
		if g != nil {
			g.Stop()
		}
	}
	q.guests = nil
	return nil
}
