// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// detachTime is how long it may take until no client is read any more and all ports are closed. On vmnet that is the time
	// of stopping an interface.
	detachTime = 5 * time.Second

	// reopenTime is how long a network that clients wait for is tried to be started, and reopenPause the time between two
	// attempts: the system may need a while to let go of the former one.
	reopenTime  = 30 * time.Second
	reopenPause = 250 * time.Millisecond

	// execAlarm is when the system ends a process whose exec does not happen, so that the service manager starts it again. An exec is
	// a matter of milliseconds, but on macOS Go waits before it, possibly for ever: see docs/upstream.md. What waits
	// there holds a lock that Go's scheduler needs, so that no timer of Go's can be relied on.
	execAlarm = 5 // seconds
)

// upgrade goes on as the program that is now at the daemon's path, which answers call. It returns only if that did not come about.
func (d *daemon) upgrade(ctx context.Context, call *net.UnixConn, gateway bool) {
	if !d.upgrading.TryLock() {
		control.Answer(call, &control.Error{Status: http.StatusConflict, Code: "busy", Text: "an upgrade is under way: wait for its end"})
		return
	}
	d.changing.Lock()
	defer d.changing.Unlock() // once it is answered: a stop waits for that
	to, err := d.replace(ctx, call, gateway)
	r := refusal(ctx, err)
	d.log.Warn("no upgrade: this image goes on", "from", compat.Version, "to", to, "reason", r.Text)
	d.upgrading.Unlock()
	control.Answer(call, r)
}

// replace finds the new program, whose version is to, tries it, and becomes it. After an error the daemon serves as before. Once ctx is
// done, no step is begun.
func (d *daemon) replace(ctx context.Context, call *net.UnixConn, gateway bool) (to string, err error) {
	b, err := handover.Find(d.path)
	if err != nil {
		return "", err
	}
	q := handover.Question{Argv: os.Args}
	_, q.POSIXLY = os.LookupEnv("POSIXLY_CORRECT")
	if q.State, err = d.network.Load().kept.Content(); err != nil {
		return "", err
	}
	if to, err = handover.Check(ctx, b, q, handover.CheckTime); err != nil || ctx.Err() != nil {
		return to, errors.Join(err, ctx.Err())
	}
	if d.network.Load().opened() == nil {
		return to, errors.New("detach: the daemon is still starting")
	}
	g, err := handover.NewGuard(b.Resolved, os.Args, os.Environ())
	if err != nil {
		return to, err
	}
	defer g.Release()
	d.log.Info("upgrading", "from", compat.Version, "to", to, "path", b.Path)
	o := &handover.Out{}
	v, err := d.detach(ctx, gateway)
	defer d.attachAgain(ctx, v)
	if err != nil || ctx.Err() != nil {
		return to, fmt.Errorf("detach: %w", errors.Join(err, ctx.Err()))
	}
	m, err := d.save(o, v, call)
	if err != nil {
		return to, fmt.Errorf("save: %w", err)
	}
	if err := b.Same(); err != nil {
		return to, err
	}
	defer endAfter(execAlarm)()
	return to, handover.Exec(o, g, m, b.Resolved, os.Args, os.Environ())
}

// refusal is the answer to a call that ended with err.
func refusal(ctx context.Context, err error) *control.Error {
	code, text := handover.CodeFailed, fmt.Sprintf("the upgrade failed, and the daemon goes on as it was: %v", err)
	if r, ok := errors.AsType[*handover.Refusal](err); ok {
		code, text = r.Code, r.Error()
	} else if ctx.Err() != nil || errors.Is(err, handover.ErrStopping) {
		code, text = handover.CodeStopping, "the daemon is being stopped"
	}
	status := http.StatusUnprocessableEntity // the new program will not do
	switch code {
	case handover.CodeStopping:
		status = http.StatusServiceUnavailable
	case handover.CodeFailed:
		status = http.StatusInternalServerError
	}
	return &control.Error{Status: status, Code: string(code), Text: text}
}

// detach ends all that serves: no connection is accepted, no frame is read, and the network ends, with what it keeps written. With
// newGateway its gateway's process ends as well. An error says that not all clients have come to rest; those are attached again when they
// have.
func (d *daemon) detach(ctx context.Context, newGateway bool) (*detached, error) {
	v := &detached{}
	d.manager.Reloading()
	d.stopAccepting(errHandover)
	d.detachWeb()
	d.extras.detach()
	ctx, cancel := context.WithTimeoutCause(ctx, detachTime, fmt.Errorf("it took longer than %v", detachTime))
	defer cancel()
	v.Stopped = time.Now()
	var err error
	v.Clients, err = d.server.Detach(ctx, func() { d.detachGateway(v, newGateway) }, func() {
		d.closeNetwork()
		v.networkClosed = true
	}, d.attachLate)
	return v, err
}

// gatewayLost is the note when a gateway should go on and cannot.
const gatewayLost = "connections to the outside ended: %v"

// detachGateway keeps the gateway's process, with its connections, for the next network, unless another one is wanted.
func (d *daemon) detachGateway(v *detached, newOne bool) {
	u, ok := d.network.Load().opened().(*usernet.Network)
	switch {
	case !ok:
		return
	case newOne:
		v.Notes = append(v.Notes, "connections to the outside ended: the gateway was started anew")
		return
	}
	var err error
	if v.gateway, err = u.Detach(); err != nil {
		v.Notes = append(v.Notes, fmt.Sprintf(gatewayLost, err))
	}
}

// attachAgain serves again after an upgrade that did not come about.
func (d *daemon) attachAgain(ctx context.Context, v *detached) {
	if v.gateway != nil && !v.networkClosed { // it has no gateway any more
		d.closeNetwork()
		v.networkClosed = true
	}
	if v.networkClosed && ctx.Err() == nil {
		d.startNetwork(ctx, opening{again: true, gateway: v.gateway})
	}
	d.serve(ctx, v, func(context.Context, []*perclient.Session) error {
		d.tellReady()
		return nil
	})
}

// attach has the clients of v served.
func (d *daemon) attach(v *detached) {
	for id, err := range d.server.Attach(v.Clients, d.linkOf) {
		d.log.Warn(clientLost, "client", id, "error", err)
	}
}

// clientLost is in the log for each client that an upgrade did not keep.
const clientLost = "a client is lost in the upgrade"

// attachLate serves a client again that did not come to rest in time.
func (d *daemon) attachLate(v perclient.Detached) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.attach(&detached{Clients: []perclient.Detached{v}})
}

// linkOf makes the link of a client that was detached, whose sockets it takes over.
func (d *daemon) linkOf(v *perclient.Detached) (link.Link, error) {
	switch {
	case v.Client.Transport == status.Stream:
		return link.AttachStream(link.StreamOptions{QueueSize: d.cfg.QueueSize}, v.Link)
	case d.extras == nil:
		return nil, errors.New("the socket that it came by is lost")
	case v.Client.Transport == status.Unixgram:
		return d.extras.shared.Link(v.Client.Path, v.Link)
	}
	return d.extras.passing.Link(v)
}

// Check is check mode, if argv asks for that: a running daemon wants to know, on in, whether this program can take over. It starts
// nothing and changes nothing.
func Check(argv []string, in io.Reader, env compat.IO) (code int, ran bool) {
	if len(argv) != 2 || compat.PersonalityOf(argv[0]) != compat.New || argv[1] != handover.CheckArgument {
		return 0, false
	}
	if err := handover.Answer(in, env.Stdout, compat.Version, func(q *handover.Question) error {
		if err := checkArgv(q.Argv, q.POSIXLY, env.Commands); err != nil {
			return fmt.Errorf("the daemon's command line: %w", err)
		}
		if len(q.State) > 0 {
			if err := state.Check(q.State); err != nil {
				return fmt.Errorf("the daemon's state: %w", err)
			}
		}
		return nil
	}); err != nil {
		_, _ = fmt.Fprintln(env.Stderr, err)
		return 1, true
	}
	return 0, true
}

// checkArgv tells whether this program, which has these commands, could be started as a daemon with argv. It asks all that is asked
// before anything is touched.
func checkArgv(argv []string, posixly bool, commands []compat.Item) error {
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
