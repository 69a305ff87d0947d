// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
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

// A captureOutput is where a capture goes: a file, standard output, or lines on that.
type captureOutput struct {
	w     io.Writer
	lines bool
	file  *os.File // nil: none of ours
}

// openCapture makes FILE, in a way that a link, or another user that may write in its directory, leads to no other file.
func openCapture(path string, stdout io.Writer) (*captureOutput, error) {
	if path == "" || path == "-" {
		return &captureOutput{w: stdout, lines: path == ""}, nil
	}
	name := printable.Lines(path)
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && !fi.Mode().IsRegular():
		return nil, fmt.Errorf("write the capture: %s is not a file: have a FIFO or a device written to by the shell, with --write=- >", name)
	case err == nil:
		return nil, fmt.Errorf("write the capture: %s exists: choose another name, or remove it", name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the capture: %w", err)
	}
	return &captureOutput{w: f, file: f}, nil
}

// copy writes what r has.
func (o *captureOutput) copy(r io.Reader) (capture.Counts, error) {
	if o.lines {
		return capture.Lines(o.w, r, time.Local)
	}
	return capture.Copy(o.w, r)
}

// finish closes a file, which ends with a whole block whatever happened. It returns err, or what went wrong here.
func (o *captureOutput) finish(c capture.Counts, err error) error {
	if o.file == nil {
		return err
	}
	if errors.As(err, new(*capture.WriteError)) {
		if terr := o.file.Truncate(c.Bytes); terr != nil {
			err = errors.Join(err, terr)
		}
	}
	if cerr := o.file.Close(); cerr != nil && err == nil {
		err = &capture.WriteError{Err: cerr}
	}
	return err
}
