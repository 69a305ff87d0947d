// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/upgrade"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// upgrade goes on as the program that is now at the daemon's path. It returns only if that did not come about.
func (d *daemon) upgrade(ctx context.Context, call *control.Call) {
	d.changing.Lock()
	defer d.changing.Unlock()
	var v *detached
	refuse(call, upgrade.Run(ctx, compat.Version, upgrade.Steps{
		Find:   func() (*upgrade.Binary, error) { return upgrade.Find(d.path) },
		Check:  d.check,
		Detach: func(ctx context.Context) (err error) { v, err = d.detach(ctx, call); return err },
		Save:   func(o *handover.Out) error { return d.save(o, v, call) },
		Exec: func(o *handover.Out, b *upgrade.Binary) error {
			if err := b.Same(); err != nil {
				return err
			}
			defer endUnlessReplaced(d.log)()
			return handover.Exec(o, b.Resolved, os.Args, os.Environ())
		},
		Attach: func() { d.attachAgain(ctx, v) },
		Log:    d.log,
	}))
}

// check asks b whether it can take over.
func (d *daemon) check(ctx context.Context, b *upgrade.Binary) (version string, err error) {
	o := upgrade.CheckOptions{Argv: os.Args}
	_, o.POSIXLY = os.LookupEnv("POSIXLY_CORRECT")
	if o.State, err = d.kept.Content(); err != nil {
		return "", err
	}
	return upgrade.Check(ctx, b, o)
}

// refuse answers a call that ended with err.
func refuse(c *control.Call, err error) {
	r, ok := errors.AsType[*upgrade.Refusal](err)
	if !ok {
		c.Refuse(http.StatusInternalServerError, string(upgrade.CodeFailed), err.Error())
		return
	}
	status := http.StatusUnprocessableEntity // the new program will not do
	switch r.Code {
	case upgrade.CodeStopping:
		status = http.StatusServiceUnavailable
	case upgrade.CodeFailed:
		status = http.StatusInternalServerError
	}
	c.Refuse(status, string(r.Code), r.Text)
}

// Check is check mode, if argv asks for that: a running daemon wants to know, on in, whether this program can take over. It starts
// nothing and changes nothing.
func Check(argv []string, in io.Reader, env compat.IO) (code int, ran bool) {
	if len(argv) != 2 || compat.PersonalityOf(argv[0]) != compat.New || argv[1] != upgrade.CheckArgument {
		return 0, false
	}
	check := func(argv []string, posixly bool) error { return checkArgv(argv, posixly, env.Commands) }
	if err := upgrade.Answer(in, env.Stdout, upgrade.Checks{Version: compat.Version, Argv: check, State: state.Check}); err != nil {
		_, _ = fmt.Fprintln(env.Stderr, err)
		return 1, true
	}
	return 0, true
}

// checkArgv tells whether this program, which has these commands, could be started as a daemon with argv. It asks all that is asked
// before anything is touched.
func checkArgv(argv []string, posixly bool, commands []string) error {
	var said bytes.Buffer
	cfg, _ := compat.Parse(compat.PersonalityOf(argv[0]), argv, compat.IO{
		Stdout: io.Discard, Stderr: &said,
		LookupEnv: func(key string) (string, bool) { return "", posixly && key == "POSIXLY_CORRECT" }, Commands: commands,
	})
	switch {
	case cfg == nil && said.Len() > 0:
		return errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "ERROR| "))
	case cfg == nil || cfg.ListInterfaces:
		return errors.New("it starts no daemon")
	}
	if _, err := cfg.Owner(); err != nil {
		return err
	}
	_, err := prepareNetwork(cfg, slog.New(slog.DiscardHandler))
	return err
}

const (
	// execLimit is how long an exec may take. It is a matter of milliseconds, but on macOS Go waits before it, possibly for ever: see
	// docs/upstream/go-preemptone.md.
	execLimit = 5 * time.Second

	// execAlarm is when the system ends a process that could not end itself. What waits in the exec holds a lock that the scheduler
	// needs, so that no goroutine may run any more: with GOMAXPROCS=1, or once the garbage collector has begun to stop the others.
	execAlarm = 6 // seconds
)

// endUnlessReplaced ends the process unless the exec happens in time, so that the service manager starts it again. The
// returned function is to be called when the exec has failed.
func endUnlessReplaced(log *slog.Logger) (undo func()) {
	timer := time.AfterFunc(execLimit, func() {
		log.Error("upgrade: exec did not happen in 5 s, ending so that the service manager starts the program again")
		os.Exit(1)
	})
	undoAlarm := endAfter(execAlarm)
	return func() {
		undoAlarm()
		timer.Stop()
	}
}
