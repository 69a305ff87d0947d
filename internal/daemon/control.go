// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/metrics"
	"github.com/socket-vmnet2/socket_vmnet2/internal/upgrade"
)

// controller is the control socket. The daemon does its work without it; all methods may be called on nil.
type controller struct {
	server *control.Server
	ln     *net.UnixListener
	root   *net.UnixListener // for root and the daemon's user; nil when it is not to be had
}

// openControl makes the socket in the runtime directory; nil when there is none, which the log tells.
func openControl(e *extras, given *inherit.Sockets, o control.Options) *controller {
	if e == nil {
		return nil
	}
	ln, err := e.listen(given, inherit.Control)
	if err != nil {
		o.Log.Warn("the daemon cannot be asked or upgraded, it does its work", "error", err)
		return nil
	}
	return newController(ln, e.listenRoot(), o)
}

// newController serves on ln and root, which another image may have made.
func newController(ln, root *net.UnixListener, o control.Options) *controller {
	o.Listener, o.Root = ln, root
	return &controller{server: control.New(o), ln: ln, root: root}
}

// listenRoot makes the control socket that only root and the daemon's user can connect to; nil when it is not to be had, which the
// log tells.
func (e *extras) listenRoot() *net.UnixListener {
	ln, err := e.dir.ListenPrivate(inherit.Control + control.RootSuffix)
	if err != nil {
		e.log.Warn("root and the daemon's user share the control socket with its group", "error", err)
		return nil
	}
	return ln
}

// controlOptions are those of the daemon with cfg, which began at that time.
func controlOptions(cfg *compat.Config, began time.Time, log *slog.Logger, up func(context.Context, *control.Call)) control.Options {
	return control.Options{
		Version: compat.Version,
		Socket:  absolute(cfg.SocketPath),
		Began:   began,
		Log:     log,
		Upgrade: up,
	}
}

// routes are what the control socket answers beyond what every daemon does.
func (d *daemon) routes() map[string]http.Handler {
	d.captures = d.newCaptures()
	return map[string]http.Handler{
		"GET " + metrics.Path: metrics.Handler(d.describe, d.log),
		"POST /v1/capture":    d.captureHandler(d.captures),
	}
}

// answering has further upgrades refused until call is answered.
func (c *controller) answering(call *control.Call) {
	if c != nil {
		c.server.Continue(call)
	}
}

// run serves until ctx is done or close, and returns at once.
func (c *controller) run(ctx context.Context) {
	if c != nil {
		c.server.Run(ctx)
	}
}

// detach leaves the connections that come from here on to attach, or to the next image.
func (c *controller) detach() {
	if c != nil {
		c.server.Detach()
	}
}

func (c *controller) attach() {
	if c != nil {
		c.server.Attach()
	}
}

// close ends what is left until ctx is done.
func (c *controller) close(ctx context.Context) {
	if c != nil {
		c.server.Close(ctx)
	}
}

// refuseUpgrade answers a call that ended with err.
func refuseUpgrade(c *control.Call, err error) {
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
