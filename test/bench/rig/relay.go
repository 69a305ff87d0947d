// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

const (
	stopTime     = 20 * time.Second       // how long a relay may take to end after SIGTERM: the daemon promises 2 s, of a machine that is not overloaded
	waitTime     = time.Minute            // how long a daemon may take to answer
	connectPause = 200 * time.Microsecond // between two attempts to connect to one that is starting
)

// A Relay is a running daemon or C relay with a socket of its own.
type Relay struct {
	Socket string // path of the stream socket; the others are beside it

	process *lab.Process // nil: this one, in tests
	stop    time.Duration
}

// Start runs a relay of the given kind, which has been prepared. What is in env is added to its environment. The load generator
// waits for the socket. The caller stops the relay.
func (r *Rig) Start(kind string, env ...string) (*Relay, error) {
	k, err := r.kind(kind)
	if err != nil {
		return nil, err
	}
	if k.Prepare != nil && !r.prepared[kind] {
		return nil, fmt.Errorf("start %s: it has not been prepared", kind)
	}
	r.sequence++
	l := &Relay{Socket: filepath.Join(r.lab.Dir, fmt.Sprintf("s%d", r.sequence)), stop: stopTime}
	argv, err := k.Command(r, l)
	if err != nil {
		return nil, err
	}
	l.process, err = r.lab.Start(kind, append(append([]string{"env"}, env...), argv...)...)
	return l, err
}

// PID is the process's.
func (r *Relay) PID() int {
	if r.process == nil {
		return os.Getpid()
	}
	return r.process.Pid()
}

// Alive returns an error when the process has ended by itself.
func (r *Relay) Alive() error {
	if r.process == nil {
		return nil
	}
	select {
	case <-r.process.Done():
		return fmt.Errorf("%s has ended during the measurement with code %d%s", r.process.Name, r.process.ExitCode(), r.Diagnosis())
	default:
		return nil
	}
}

// Stop ends the process and waits for it. A Go program that does not end is asked what it is doing.
func (r *Relay) Stop() error {
	if err := r.Alive(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.stop)
	defer cancel()
	if _, err := r.process.Stop(ctx, syscall.SIGTERM); err == nil {
		return nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if _, err := r.process.Stop(ctx, syscall.SIGQUIT); err != nil {
		r.process.Kill()
	}
	return fmt.Errorf("%s did not end within %v of SIGTERM%s", r.process.Name, r.stop, r.Diagnosis())
}

// Diagnosis is what the process wrote last, ready to follow an error's text: its last lines, and a stuck Go program's goroutines.
func (r *Relay) Diagnosis() string {
	if r.process == nil {
		return ""
	}
	return "\nits last lines:\n" + r.process.Output().Tail(200)
}

// Collections is how many garbage collections the process has reported so far, started with GODEBUG=gctrace=1.
func (r *Relay) Collections() int { return strings.Count("\n"+r.process.Output().String(), "\ngc ") }

// Ready starts a daemon that has a gateway, and returns how long it took from then until a client was served: connected, and its
// question for the gateway's hardware address answered. The daemon is stopped.
func (r *Rig) Ready(ctx context.Context, kind string) (took time.Duration, err error) {
	begin := time.Now()
	l, err := r.Start(kind)
	if err != nil {
		return 0, err
	}
	err = l.ask(ctx)
	took = time.Since(begin)
	if err != nil {
		err = fmt.Errorf("wait for the gateway's answer: %w%s", err, l.Diagnosis())
	}
	return took, errors.Join(err, l.Stop())
}

// ask connects, asks for the gateway's hardware address and waits for the answer.
func (r *Relay) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
		if err == nil {
			g, err := fakeguest.New(fakeguest.StreamLink(c), fakeguest.Options{Timeout: waitTime})
			if err != nil {
				return err
			}
			defer g.Close()
			_, err = g.Resolve(netip.MustParseAddr(gateway))
			return err
		}
		if alive := r.Alive(); alive != nil || ctx.Err() != nil {
			return errors.Join(alive, err)
		}
		time.Sleep(connectPause)
	}
}
