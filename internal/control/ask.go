// SPDX-License-Identifier: Apache-2.0

package control

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
	"strings"
)

// maxAnswer in bytes: 4,096 clients, with what they call themselves.
const maxAnswer = 32 << 20

// Error makes it an error of Ask, whose text is for people.
func (e *Error) Error() string { return e.Text }

// Ask makes a request on the control socket at path and returns the answer, a JSON document, with the status of HTTP. An
// answer that is an error is returned with an *Error; other errors are those of the connection.
func Ask(ctx context.Context, path, method, what string) (status int, answer json.RawMessage, err error) {
	return AskWith(ctx, path, method, what, nil)
}

// AskWith is Ask with a body, which is sent as JSON unless it is nil. An answer may also be empty (204).
func AskWith(ctx context.Context, path, method, what string, body any) (status int, answer json.RawMessage, err error) {
	resp, err := request(ctx, path, method, what, body)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = readAnswer(path, resp)
	if _, told := errors.AsType[*Error](err); err != nil && !told {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		err = fmt.Errorf("ask %s: %w", path, err)
	}
	return resp.StatusCode, answer, err
}

// readAnswer is the document in resp, and an *Error if it is one.
func readAnswer(path string, resp *http.Response) (json.RawMessage, error) {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	if err == nil && (len(b) > maxAnswer || !json.Valid(b)) {
		err = errors.New("the answer is not JSON, or too long")
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return b, nil
	}
	var e errorBody
	if json.Unmarshal(b, &e) != nil || e.Error.Text == "" {
		e.Error.Text = fmt.Sprintf("%s: %s", path, resp.Status)
	}
	return b, &e.Error
}

// request connects, asks and returns the answer, whose body ends the connection. A daemon that is busy answers before it has read
// the request, so an error to write is none if there is an answer.
func request(ctx context.Context, path, method, what string, body any) (*http.Response, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://socket_vmnet2"+what, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.Close = true
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	c, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	a := &answered{conn: c, ctx: ctx, stop: context.AfterFunc(ctx, func() { _ = c.Close() })}
	werr := r.Write(c)
	resp, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		_ = a.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case werr != nil:
			return nil, werr
		}
		return nil, err
	}
	a.body = resp.Body
	resp.Body = a
	return resp, nil
}

// RootSuffix is behind the path of a control socket in that of the one for root and the daemon's user.
const RootSuffix = ".root"

// dial connects to the socket for root and the daemon's user, or, if this user may not or there is none, to the one for all.
func dial(ctx context.Context, path string) (net.Conn, error) {
	if strings.HasPrefix(path, "@") { // else Linux takes it for a name without a file
		path = "./" + path
	}
	d := new(net.Dialer)
	if c, err := d.DialContext(ctx, "unix", path+RootSuffix); err == nil {
		return c, nil
	}
	return d.DialContext(ctx, "unix", path)
}

// answered is an answer's body with its connection.
type answered struct {
	body io.ReadCloser
	conn net.Conn
	ctx  context.Context
	stop func() bool
}

// Read implements io.Reader.
func (a *answered) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && a.ctx.Err() != nil {
		err = a.ctx.Err()
	}
	return n, err
}

// Close implements io.Closer.
func (a *answered) Close() error {
	a.stop()
	return a.conn.Close()
}
