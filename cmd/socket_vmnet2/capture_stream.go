// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/capture"
	"github.com/socket-vmnet2/socket_vmnet2/internal/capture/read"
	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A captureStream is a capture as it comes from the daemon.
type captureStream struct {
	conn *net.UnixConn
	resp *http.Response
}

// startCapture asks for one. Errors are in words for the user.
func startCapture(ctx context.Context, d find.Daemon, q capture.Request) (*captureStream, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: askTime}
	c, err := dialer.DialContext(ctx, "unix", d.Control)
	if err != nil {
		d.Err = err
		return nil, explainDaemon(d)
	}
	conn := c.(*net.UnixConn)
	_ = conn.SetDeadline(time.Now().Add(askTime))
	resp, err := ask1(conn, body)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: the daemon ended the connection without an answer: see its log, and whether it runs: %w", nameOf(d), err)
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = conn.Close() }()
		return nil, refusedCapture(d, resp)
	}
	_ = conn.SetDeadline(time.Time{})
	return &captureStream{conn: conn, resp: resp}, nil
}

// ask1 makes the request.
func ask1(conn *net.UnixConn, body []byte) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, "http://socket_vmnet2/v1/capture", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	// A daemon that does not read all of it has answered.
	werr := r.Write(conn)
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return nil, errors.Join(err, werr)
	}
	return resp, nil
}

// refusedCapture is why there is none.
func refusedCapture(d find.Daemon, resp *http.Response) error {
	var e struct{ Error control.Error }
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = json.Unmarshal(b, &e)
	switch {
	case resp.StatusCode == http.StatusNotFound && e.Error.Code == "not_found":
		return tooOld(d, "/v1/capture")
	case e.Error.Text == "":
		e.Error.Text = resp.Status
	}
	return fmt.Errorf("%s: %s", nameOf(d), printable.Lines(e.Error.Text))
}

func (s *captureStream) body() io.Reader { return s.resp.Body }

// end has the daemon send what it still has. If that takes too long it is left.
func (s *captureStream) end() {
	_ = s.conn.SetReadDeadline(time.Now().Add(captureEnd))
	_ = s.conn.CloseWrite()
}

func (s *captureStream) close() { _ = s.conn.Close() }

// result is what the daemon says at the end of the stream: how many frames were dropped, and why it ended, which may be empty.
func (s *captureStream) result(c read.Counts) (dropped uint64, reason string) {
	if n, err := strconv.ParseUint(s.resp.Trailer.Get(capture.TrailerDropped), 10, 64); err == nil {
		c.Dropped = n
	}
	return c.Dropped, s.resp.Trailer.Get(capture.TrailerReason)
}
