// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/health"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
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

// newCaptures makes the tap of all captures.
func (d *daemon) newCaptures() *capture.Hub {
	var h *capture.Hub
	h = capture.NewHub(capture.Options{
		Watch: func(on bool) {
			if on {
				d.server.SetTap(h)
			} else {
				d.server.SetTap(nil)
			}
		},
		Describe:    d.describeClients,
		Application: "socket_vmnet2 " + compat.Version,
		Log:         d.log,
	})
	return h
}

// describeClients tells of clients for a capture. Those that are there at the beginning are looked up once.
func (d *daemon) describeClients() func(id uint64) capture.Description {
	known := map[uint64]perclient.Info{}
	return func(id uint64) capture.Description {
		if _, ok := known[id]; !ok {
			clear(known)
			for _, i := range d.server.List() {
				known[i.ID] = i
			}
		}
		return describeClient(id, known[id])
	}
}

// describeClient names a client as the log does. i is zero when it has left already.
func describeClient(id uint64, i perclient.Info) capture.Description {
	t := capture.Description{Name: fmt.Sprintf("client %d", id)}
	if name := cmp.Or(i.Name, i.Watch.Hostname); name != "" {
		t.Name += " " + name
	}
	var parts []string
	if i.MAC != nil {
		parts = append(parts, i.MAC.String())
	}
	if i.Transport != "" {
		parts = append(parts, i.Transport)
	}
	for pair := range slices.Chunk(i.Peer.Args(), 2) {
		parts = append(parts, fmt.Sprint(pair[0], " ", pair[1]))
	}
	t.Text = strings.Join(parts, ", ")
	return t
}

// capture is POST /v1/capture.
func (d *daemon) capture(w http.ResponseWriter, r *http.Request) any {
	if !control.Trusted(control.PeerOf(r)) {
		return &control.Error{
			Status: http.StatusForbidden, Code: "forbidden", Text: "only root and the daemon's user may see the frames of guests: use sudo",
		}
	}
	q, err := capture.DecodeRequest(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &control.Error{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Text: fmt.Sprintf("the body is larger than %d bytes: a simpler filter, or fewer clients", large.Limit),
		}
	} else if err != nil {
		return &control.Error{Status: http.StatusBadRequest, Code: "bad_request", Text: err.Error()}
	}
	s, err := d.captures.Start(q)
	if err != nil {
		return &control.Error{Status: http.StatusServiceUnavailable, Code: "busy", Text: err.Error()}
	}
	return d.runCapture(w, r, s)
}

// runCapture streams s until it ends.
func (d *daemon) runCapture(w http.ResponseWriter, r *http.Request, s *capture.Session) any {
	out, err := control.OpenStream(w, r, "application/x-pcapng")
	if err != nil {
		s.Discard()
		return err
	}
	defer out.Close()
	began := time.Now()
	d.log.Info("capture begins", control.PeerOf(r).Args()...)
	res := s.Run(out, out.Done(), func() error {
		if out.Left() {
			return capture.ErrLeft
		}
		return capture.ErrStopped
	})
	d.log.Info("capture ended", "reason", res.Reason, "frames", res.Frames, "dropped", res.Dropped,
		"duration", time.Since(began).Round(time.Millisecond))
	w.Header().Set(http.TrailerPrefix+capture.TrailerFrames, fmt.Sprint(res.Frames))
	w.Header().Set(http.TrailerPrefix+capture.TrailerDropped, fmt.Sprint(res.Dropped))
	w.Header().Set(http.TrailerPrefix+capture.TrailerReason, res.Reason.Error())
	return nil
}
