// SPDX-License-Identifier: Apache-2.0

package control

import (
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

// maxAnswer in bytes.
const maxAnswer = 4 << 20

// Error makes it an error of Ask, whose text is for people.
func (e *Error) Error() string { return e.Text }

// Ask makes a request on the control socket at path and returns the answer, a JSON document, with the status of HTTP. An
// answer that is an error is returned with an *Error; other errors are those of the connection.
func Ask(ctx context.Context, path, method, what string) (status int, answer json.RawMessage, err error) {
	return AskWith(ctx, path, method, what, nil)
}

// AskWith is Ask with a body, which is sent as JSON unless it is nil.
func AskWith(ctx context.Context, path, method, what string, body any) (status int, answer json.RawMessage, err error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("ask %s: %w", path, err)
		}
		sent = bytes.NewReader(b)
	}
	if strings.HasPrefix(path, "@") { // else Linux takes it for a name without a file
		path = "./" + path
	}
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, "http://socket_vmnet2"+what, sent)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, nil, nil
	}
	if err == nil && (len(b) > maxAnswer || !json.Valid(b)) {
		err = errors.New("the answer is not JSON, or too long")
	}
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, b, nil
	}
	var e errorBody
	if json.Unmarshal(b, &e) != nil || e.Error.Text == "" {
		e.Error.Text = fmt.Sprintf("%s: %s", path, resp.Status)
	}
	return resp.StatusCode, b, &e.Error
}
