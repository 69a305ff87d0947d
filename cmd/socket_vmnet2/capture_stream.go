// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A captureStream is a capture as it comes from the daemon.
type captureStream struct {
	conn *net.UnixConn
	resp *http.Response
}

// startCapture asks for one, which goes on when ctx is done. Errors are in words for the user.
func startCapture(ctx context.Context, d find.Daemon, q capture.Request) (*captureStream, error) {
	const what = "/v1/capture"
	asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	late := time.AfterFunc(askTime, func() { cancel(fmt.Errorf("no answer within %v", askTime)) })
	defer late.Stop()
	resp, conn, err := control.Open(asking, d.Control, http.MethodPost, what, q)
	if asking.Err() != nil {
		err = context.Cause(asking)
	}
	if err != nil {
		return nil, explainAnswer(d, what, 0, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		_, err = control.ReadAnswer(d.Control, resp)
		return nil, explainAnswer(d, what, resp.StatusCode, err)
	}
	return &captureStream{conn: conn.(*net.UnixConn), resp: resp}, nil
}

func (s *captureStream) body() io.Reader { return s.resp.Body }

// end has the daemon send what it still has. If that takes too long it is left.
func (s *captureStream) end() {
	_ = s.conn.SetReadDeadline(time.Now().Add(captureEnd))
	_ = s.conn.CloseWrite()
}

func (s *captureStream) close() { _ = s.resp.Body.Close() }

// result is what the daemon says at the end of the stream: how many frames were dropped, and why it ended. Both are empty if the stream
// was cut.
func (s *captureStream) result() (dropped, reason string) {
	return printable.Lines(s.resp.Trailer.Get(capture.TrailerDropped)), printable.Lines(s.resp.Trailer.Get(capture.TrailerReason))
}
