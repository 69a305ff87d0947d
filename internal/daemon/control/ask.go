// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"cmp"
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

// Ask makes a request on the control socket at path, with a body of JSON unless that is nil, and returns the answer, a JSON
// document, with the status of HTTP. An answer that is an error is returned with an *Error; other errors are those of the connection.
func Ask(ctx context.Context, path, method, what string, body any) (status int, answer json.RawMessage, err error) {
	resp, _, err := Open(ctx, path, method, what, body)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		status = resp.StatusCode
		answer, err = ReadAnswer(path, resp)
	}
	if _, told := errors.AsType[*Error](err); err != nil && !told {
		err = fmt.Errorf("ask %s: %w", path, cmp.Or(ctx.Err(), err))
	}
	return status, answer, err
}

// ReadAnswer is the document in resp, and an *Error if it is one.
func ReadAnswer(path string, resp *http.Response) (json.RawMessage, error) {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
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
	if json.Unmarshal(b, &e) != nil || e.Error == nil || e.Error.Text == "" {
		e.Error = &Error{Text: fmt.Sprintf("%s: %s", path, resp.Status)}
	}
	e.Error.Status = resp.StatusCode
	return b, e.Error
}

// Open makes a request as Ask does, and returns the answer, whose body ends the connection, as ctx does.
func Open(ctx context.Context, path, method, what string, body any) (*http.Response, net.Conn, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://socket_vmnet2"+what, bytes.NewReader(b))
	if err != nil {
		return nil, nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	var c net.Conn
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (_ net.Conn, err error) {
			c, err = dial(ctx, path)
			return c, err
		},
		DisableKeepAlives: true, DisableCompression: true,
	}
	resp, err := t.RoundTrip(r)
	return resp, c, cmp.Or(ctx.Err(), err)
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
