// SPDX-License-Identifier: Apache-2.0

// Command demo shows the daemon at work: it starts it the way socket_vmnet is started, boots three virtual machines on it,
// each attached in another way, has them get addresses, talk to each other and to the host, and prints what came out as a
// table. demo.sh does the set-up and runs it.
//
// With -socket it tries a daemon that is running already, whatever its back end and operating system. The guests' files are then those
// that test/e2e/setup.sh puts into its cache on Linux: copy the directory to another system and name it with E2E_CACHE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// wholeTime bounds a run: with nothing to download it takes about 20 s.
const wholeTime = 170 * time.Second

func main() {
	bin := flag.String("bin", "bin", "`directory` of the built programs")
	socket := flag.String("socket", "", "`socket` of a daemon that is running, in place of one that is started")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	timed, cancel := context.WithTimeout(ctx, wholeTime)
	err := run(timed, *bin, *socket)
	interrupted := ctx.Err() != nil
	cancel()
	stop()
	if interrupted {
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted, everything it started has been ended")
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: FAILED: %v\n", err)
		os.Exit(1)
	}
}

// A progress prints what happens with the time since the start, one line each.
type progress struct {
	mu    sync.Mutex
	start time.Time
}

func (p *progress) say(who, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Printf("%6.1f s  %-8s %s\n", time.Since(p.start).Seconds(), who, what)
}

func (p *progress) sayf(who, format string, args ...any) { p.say(who, fmt.Sprintf(format, args...)) }

func run(ctx context.Context, bin, socket string) (err error) {
	p := &progress{start: time.Now()}
	tools, err := lab.FindTools(false)
	if err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Tools: tools, Progress: p.say})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	d := &demo{progress: p, lab: l, bin: bin, socket: socket}
	if err := d.play(ctx); err != nil {
		if d.daemon != nil {
			err = fmt.Errorf("%w\n\nlast lines of the daemon:\n%s", err, d.daemon.Output().Tail(20))
		}
		return err
	}
	p.sayf("demo", "done")
	fmt.Printf("\n%s", d.table())
	return nil
}
