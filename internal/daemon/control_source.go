// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// source is the daemon as its control socket knows it.
type source struct{ d *daemon }

// Status implements control.daemon.
func (s source) Status() status.Status { return s.d.describe() }

// Kick implements control.daemon.
func (s source) Kick(ctx context.Context, id uint64, by peercred.Peer) error {
	ended, err := s.d.server.Kick(id, errors.New("disconnected by "+byWhom(by)))
	if errors.Is(err, perclient.ErrNoClient) {
		return control.ErrNoClient
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

// byWhom names who asked for something.
func byWhom(p peercred.Peer) string {
	who := fmt.Sprintf("user %d", p.UID)
	if p.UID == 0 {
		who = "root"
	}
	if p.PID > 0 {
		who += fmt.Sprintf(" (process %d)", p.PID)
	}
	return who
}

// Level implements control.daemon.
func (s source) Level() string { return s.d.logs.Level() }

// SetLevel implements control.daemon. The line about it is there whatever the levels are.
func (s source) SetLevel(level string, by peercred.Peer) error {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "log level changed", 0)
	r.Add("from", s.Level(), "to", level)
	r.Add(by.Args()...)
	if err := s.d.logs.SetLevel(level); err != nil {
		return err
	}
	_ = s.d.log.Handler().Handle(context.Background(), r)
	return nil
}
