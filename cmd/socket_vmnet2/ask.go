// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// askTime is how long a daemon may take to answer: one that is being upgraded answers when that is done.
var askTime = 10 * time.Second

// machine is where daemons are looked for.
var machine = find.Machine

// theDaemon is the one whose SOCKET is in args, or the only one that runs. Its control socket is there.
func theDaemon(args []string) (find.Daemon, error) {
	all, err := theDaemons(args)
	switch {
	case err != nil:
		return find.Daemon{}, err
	case len(all) > 1:
		return find.Daemon{}, fmt.Errorf("several daemons run, name the SOCKET of one: %s", strings.Join(socketsOf(all), ", "))
	case all[0].Err != nil:
		return find.Daemon{}, explainDaemon(all[0])
	}
	return all[0], nil
}

// theDaemons are those whose SOCKETs are in args, or all that run: at least one. Some may have an Err.
func theDaemons(args []string) ([]find.Daemon, error) {
	s := machine()
	if len(args) == 0 {
		all := find.Daemons(s)
		if len(all) == 0 {
			return nil, fmt.Errorf("no daemon was found: neither a process named socket_vmnet2, nor a socket at %s. "+
				"Name the SOCKET of one that is elsewhere, or start one: socket_vmnet2 service install, or socket_vmnet2 try", strings.Join(s.Places, ", "))
		}
		return all, nil
	}
	all := make([]find.Daemon, 0, len(args))
	for _, socket := range args {
		if path, err := filepath.Abs(socket); err == nil {
			socket = path
		}
		all = append(all, find.One(s, socket))
	}
	return all, nil
}

// nameOf is what to call a daemon.
func nameOf(d find.Daemon) string {
	if d.Socket == "" {
		return printable.Lines(filepath.Dir(d.Control))
	}
	return printable.Lines(d.Socket)
}

func socketsOf(all []find.Daemon) (names []string) {
	for _, d := range all {
		names = append(names, nameOf(d))
	}
	return names
}

// explainDaemon words why a daemon cannot be asked, and what to do.
func explainDaemon(d find.Daemon) error {
	name := nameOf(d)
	process := ""
	if d.PID != 0 {
		process = fmt.Sprintf(" (process %d, %s)", d.PID, printable.Lines(d.Program))
	}
	info, err := os.Stat(name)
	there := err == nil
	switch err := d.Err; {
	case err == nil:
		return nil
	case there && info.IsDir() && errors.Is(err, find.ErrNothing):
		return fmt.Errorf("%s: it is a directory and has no control socket of a daemon: name the SOCKET that the daemon serves", name)
	case there && !info.IsDir() && info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: it is a file and not a socket: name the SOCKET that a daemon serves", name)
	case errors.Is(err, find.ErrNothing) && d.PID != 0:
		return fmt.Errorf("%s: its daemon%s runs, but the socket is not there: it was removed, or the daemon starts, or it runs in a container", name, process)
	case errors.Is(err, find.ErrNothing):
		return fmt.Errorf("%s: no daemon runs there: start one, or name the SOCKET of the one that runs", name)
	case errors.Is(err, find.ErrStopped):
		return fmt.Errorf("%s: nothing listens there: the daemon has ended without removing it; start it again", name)
	case errors.Is(err, find.ErrOld):
		return fmt.Errorf("%s: socket_vmnet serves it%s, which cannot be asked anything; socket_vmnet2 migrate tells how to replace it", name, process)
	case errors.Is(err, find.ErrNoControl):
		return fmt.Errorf("%s: the daemon%s has no control socket: it was started with --runtime-dir=none, or its log tells why. "+
			"Start it without that option; if the socket is elsewhere, name its directory in place of SOCKET", name, process)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this user may not ask the daemon: use sudo, or be a member of the socket's group", name)
	}
	return fmt.Errorf("%s: %w", name, d.Err)
}

// ask makes a request to a daemon, with a body unless that is nil. Errors are in words for its user.
func ask(ctx context.Context, d find.Daemon, method, what string, body any) (json.RawMessage, error) {
	return askWithin(ctx, askTime, d, method, what, body)
}

// askWithin is ask with another time to wait. What the daemon answers is returned with an error, too.
func askWithin(ctx context.Context, wait time.Duration, d find.Daemon, method, what string, body any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%s: no answer within %v: see the daemon's log", nameOf(d), wait))
	defer cancel()
	status, answer, err := control.Ask(ctx, d.Control, method, what, body)
	if err == nil {
		return answer, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, explainAnswer(d, what, status, err)
}

// explainAnswer words err, which came of asking d for what.
func explainAnswer(d find.Daemon, what string, status int, err error) error {
	refusal, ok := errors.AsType[*control.Error](err)
	switch {
	case !ok && errors.Is(err, fs.ErrPermission):
		d.Err = err
		return explainDaemon(d)
	case !ok:
		return fmt.Errorf("%s: the daemon ended the connection without an answer: see its log, and whether it runs: %w", nameOf(d), err)
	case status == http.StatusNotFound && refusal.Code == "not_found":
		return fmt.Errorf("%s: the daemon is older than this program and has no %s: have it become this program with socket_vmnet2 upgrade %[1]s, "+
			"or start it again", nameOf(d), what)
	}
	return fmt.Errorf("%s: %s", nameOf(d), printable.Lines(refusal.Text))
}
