// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"time"
)

// startTimeout is how long a daemon may take until its socket takes connections; it takes milliseconds.
const startTimeout = time.Minute

// A Daemon is a running socket_vmnet.
type Daemon struct {
	*Process
	// Socket is its stream socket.
	Socket string
}

// StartDaemon starts program with the arguments args, the last of which is the socket, and waits until the socket takes
// connections. Entries of env such as "DEBUG=1" are added to its environment.
func (l *Lab) StartDaemon(ctx context.Context, program string, args []string, env ...string) (*Daemon, error) {
	p, err := l.start(command{name: "daemon", argv: append([]string{program}, args...), env: env, line: l.opts.Line})
	if err != nil {
		return nil, err
	}
	d := &Daemon{Process: p, Socket: args[len(args)-1]}
	l.mu.Lock()
	l.sockets = append(l.sockets, d.Socket)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = Poll(ctx, func() error {
		select {
		case <-p.done:
			return nil
		default:
			c, err := net.Dial("unix", d.Socket)
			if err == nil {
				_ = c.Close() // at once, which costs the daemon nothing
			}
			return err
		}
	})
	select {
	case <-p.done:
		return nil, fmt.Errorf("start daemon: it ended with code %d and printed:\n%s", p.ExitCode(), p.out.Tail(15))
	default:
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start daemon: %w; it printed:\n%s", err, p.out.Tail(15))
	}
	return d, nil
}
