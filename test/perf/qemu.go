// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// qemu are the QEMU guests of test/e2e on Linux, with iperf3 in their image. They have no disks, so there is nothing to
// create.
type qemu struct {
	*perf
	iperf  string // on the host
	tools  lab.Tools
	lab    *lab.Lab
	guests []*lab.Guest
	host   string // the host's address for guests
	server string // perf1's address
}

// create looks for everything that machines need.
func (q *qemu) create(context.Context, int) (err error) {
	if q.iperf, err = findIperf(); err != nil {
		return err
	}
	q.tools, err = lab.FindTools(false)
	return err
}

func (q *qemu) remove(context.Context, int) error {
	q.say("QEMU guests leave nothing behind")
	return nil
}

func (q *qemu) check(ctx context.Context, count int) error {
	q.say("The processor of these machines is emulated (TCG), which bounds Mbit/s long before the daemon does. Compare what the daemon needs for a GB")
	return q.create(ctx, count)
}

// attach makes a lab, which stop closes with all that runs in it.
func (q *qemu) attach(ctx context.Context, src source) (*daemon, error) {
	dir, err := os.MkdirTemp("", "perf")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the guests' iperf3: %w", err)
	}
	defer os.RemoveAll(dir)
	files, err := guestFiles(ctx, q.iperf, dir)
	if err != nil {
		return nil, err
	}
	if q.lab, err = lab.New(ctx, lab.Options{Tools: q.tools, Files: files}); err != nil {
		return nil, err
	}
	if src.socket != "" {
		return running(src)
	}
	if src.name == wordTree {
		if src.program, err = q.buildTree(ctx); err != nil {
			return nil, err
		}
	}
	src.socket = q.lab.Path("socket_vmnet")
	d, err := q.lab.StartDaemon(ctx, src.program, []string{"--vmnet-gateway=" + gateway, src.socket})
	if err != nil {
		return nil, err
	}
	return &daemon{source: src, pid: d.Pid()}, nil
}

func (q *qemu) start(ctx context.Context, count int, d *daemon) error {
	q.guests = make([]*lab.Guest, count)
	err := lab.Together(count, func(i int) (err error) {
		q.guests[i], err = q.boot(ctx, i+1, d.socket)
		return err
	})
	if err != nil {
		return err
	}
	r, err := q.guests[0].Must(ctx, "ip -4 -o addr show dev eth0 && iperf3 --server --daemon")
	if m := inetRE.FindStringSubmatch(r.Output); m != nil {
		q.server = m[1]
	}
	if err == nil {
		q.host, err = q.guests[0].Resolve(ctx, "host.internal")
	}
	return err
}

// boot boots machine n and waits for its address.
func (q *qemu) boot(ctx context.Context, n int, socket string) (*lab.Guest, error) {
	mac := fmt.Sprintf("52:54:00:70:65:%02x", n)
	g, err := q.lab.Boot(ctx, lab.GuestOptions{Name: name(n), MAC: mac, Netdev: lab.StreamNetdev(socket, 0)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.patience)
	defer cancel()
	if _, err := g.DHCP(ctx); err != nil {
		return nil, fmt.Errorf("%s gets no address: %w", name(n), err)
	}
	return g, nil
}

func (q *qemu) transfer(ctx context.Context, direction string, seconds int) ([]byte, error) {
	if direction == vmToVM {
		return q.inGuest(ctx, 2, seconds, clientArgs(q.server, seconds))
	}
	port, server, err := q.lab.ServeIPerf(ctx, q.iperf)
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	// The user-space network lets connections out and none in, so the machine opens it in both directions.
	more := []string{"--port", port}
	if direction == hostToVM {
		more = append(more, "--reverse")
	}
	return q.inGuest(ctx, 1, seconds, clientArgs(q.host, seconds, more...))
}

// inGuest runs iperf3 in machine n.
func (q *qemu) inGuest(ctx context.Context, n, seconds int, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+slack)
	defer cancel()
	r, err := q.guests[n-1].Run(ctx, "iperf3 "+strings.Join(args, " "))
	if err == nil && r.Code != 0 {
		_, err = lab.ParseIPerf([]byte(r.Output))
		err = fmt.Errorf("iperf3 in %s ended with code %d: %w", name(n), r.Code, err)
	}
	return []byte(r.Output), err
}

func (q *qemu) stop(context.Context) error {
	if q.lab == nil {
		return nil
	}
	return q.lab.Close()
}

// unlinked is a library that iperf3's threads need when they end, by way of dlopen.
const unlinked = "libgcc_s.so.1"

// libraryRE finds the file behind each line of ldd: "name => path (address)" or "path (address)" of the loader.
var libraryRE = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// guestFiles are the host's iperf3 and its libraries, by their names in a guest, which has none but these. A script
// calls iperf3 by its own loader; it is written to dir, which must be there until the guests' image is packed.
func guestFiles(ctx context.Context, iperf, dir string) (map[string]string, error) {
	out, err := output(ctx, "ldd", iperf)
	if err != nil {
		return nil, fmt.Errorf("find the libraries of %s for the guests: %w", iperf, err)
	}
	files, loader := map[string]string{"iperf3.bin": iperf}, ""
	for _, m := range libraryRE.FindAllStringSubmatch(string(out), -1) {
		library := m[1]
		files[filepath.Base(library)] = library
		if strings.HasPrefix(filepath.Base(library), "ld-") {
			loader = filepath.Base(library)
		}
		beside := filepath.Join(filepath.Dir(library), unlinked)
		if _, err := os.Stat(beside); err == nil {
			files[unlinked] = beside
		}
	}
	if loader == "" {
		return nil, fmt.Errorf("find the libraries of %s for the guests: ldd names no loader:\n%s", iperf, out)
	}
	script := filepath.Join(dir, "iperf3")
	text := fmt.Sprintf("#!/bin/sh\nexec /lab/%s --library-path /lab /lab/iperf3.bin \"$@\"\n", loader)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return nil, fmt.Errorf("write the guests' iperf3: %w", err)
	}
	files["iperf3"] = script
	return files, nil
}
