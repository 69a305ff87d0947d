// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// openControl makes the control sockets in the runtime directory. The daemon does its work without them, and the log tells that.
func (d *daemon) openControl() {
	if d.extras == nil {
		return
	}
	dir := d.extras.dir
	if err := d.listen(inherit.Control, func() (*net.UnixListener, error) { return dir.Listen(inherit.Control, false) }); err != nil {
		d.log.Warn("the daemon cannot be asked or upgraded, it does its work", "error", err)
		return
	}
	sockets := []*net.UnixListener{d.unix(inherit.Control)}
	if err := d.listen(controlRoot, func() (*net.UnixListener, error) { return dir.Listen(controlRoot, true) }); err != nil {
		d.log.Warn("root and the daemon's user share the control socket with its group", "error", err)
	} else {
		sockets = append(sockets, d.unix(controlRoot))
	}
	d.captures = d.newCaptures()
	d.web = append(d.web, control.New(control.Options{
		Sockets: sockets, Log: d.log, Upgrade: d.upgrade, Describe: d.describe, Kick: d.kick, SetLevel: d.setLevel,
		Handle: map[string]http.Handler{ // beyond what every daemon answers
			"GET " + health.MetricsPath: health.Metrics(d.describe, d.log),
			"POST /v1/capture":          control.Handler(d.capture),
		},
	}))
}

// kick disconnects a client.
func (d *daemon) kick(ctx context.Context, id uint64, by hostfs.Peer) error {
	who := fmt.Sprintf("user %d", by.UID)
	if by.UID == 0 {
		who = "root"
	}
	if by.PID > 0 {
		who += fmt.Sprintf(" (process %d)", by.PID)
	}
	ended, err := d.server.Kick(id, errors.New("disconnected by "+who))
	if errors.Is(err, perclient.ErrNoClient) {
		return control.NoClient(id)
	}
	if err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setLevel changes what is logged. The line about it is there whatever the levels are.
func (d *daemon) setLevel(level string, by hostfs.Peer) error {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "log level changed", 0)
	r.Add("from", d.logs.Level(), "to", level)
	r.Add(by.Args()...)
	if err := d.logs.SetLevel(level); err != nil {
		return err
	}
	_ = d.log.Handler().Handle(context.Background(), r)
	return nil
}
