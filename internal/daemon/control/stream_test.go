// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streaming is a server with POST /v1/stream, which says hello and goes on until it is to end, when it says goodbye. A handler
// that has ended says so on ended.
func streaming(t *testing.T, handle func(st *stream)) (s *HTTP, path string, ended chan struct{}) {
	t.Helper()
	ended = make(chan struct{}, 1000)
	if handle == nil {
		handle = func(st *stream) {
			_, _ = st.Write([]byte("hello\n"))
			<-st.Done()
			_, _ = st.Write([]byte("goodbye\n"))
		}
	}
	s, path = serve(t, func(o *Options) {
		o.Handle = map[string]http.Handler{"POST /v1/stream": Handler(func(w http.ResponseWriter, r *http.Request) any {
			st, err := OpenStream(w, r, "text/plain")
			if err != nil {
				return err
			}
			defer func() { ended <- struct{}{} }()
			defer st.Close()
			handle(st)
			return nil
		})}
	})
	return s, path, ended
}

// openStream asks for a stream and returns the answer with its connection.
func openStream(t *testing.T, path string) (*http.Response, *bufio.Reader, net.Conn) {
	t.Helper()
	c := dialHTTP(t, path, "POST /v1/stream HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return resp, bufio.NewReader(resp.Body), c
}

// wait waits for a handler's end.
func wait(t *testing.T, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(patience):
		require.Fail(t, "the handler goes on")
	}
}

// TestStreamEnds: whatever ends it, the handler ends, and the client can tell an end in order.
func TestStreamEnds(t *testing.T) {
	for name, leaves := range map[string]bool{"the client leaves": true, "an upgrade": false} {
		t.Run(name, func(t *testing.T) {
			s, path, ended := streaming(t, nil)
			resp, body, conn := openStream(t, path)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, "text/plain", resp.Header.Get("Content-Type"))
			line, err := body.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "hello\n", line)
			if leaves {
				require.NoError(t, conn.Close())
				wait(t, ended)
				return
			}
			s.Detach()
			wait(t, ended)
			rest, err := io.ReadAll(body)
			require.NoError(t, err, "the body has its end")
			assert.Equal(t, "goodbye\n", string(rest))
		})
	}
}

// TestStreamNotRead: a client that does not read holds nothing up: neither others, nor an upgrade or the end.
func TestStreamNotRead(t *testing.T) {
	const n = 4
	blocked := make(chan struct{}, n)
	s, path, ended := streaming(t, func(st *stream) {
		big := make([]byte, 1<<20)
		time.AfterFunc(20*time.Millisecond, func() { blocked <- struct{}{} })
		_, err := st.Write(big)
		assert.Error(t, err)
	})
	for range n {
		openStream(t, path)
	}
	for range n {
		<-blocked
	}
	status, _, err := ask(t, path, http.MethodGet, "/v1/version")
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	s.Detach()
	for range n {
		wait(t, ended)
	}
}

// TestStreamRefused: while the daemon pauses there is none, and the refusal says why.
func TestStreamRefused(t *testing.T) {
	ctx, pause := context.WithCancel(t.Context())
	pause()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, &conn{base: ctx}), http.MethodPost, "/v1/stream", nil)
	_, err := OpenStream(httptest.NewRecorder(), r, "text/plain")
	assert.Equal(t, Error{503, "stopping", "the daemon is stopping or being upgraded: ask again"}, errorOf(t, err))
}

// TestStreamOutlivesDeadlines: the times of a request are not those of a stream.
func TestStreamOutlivesDeadlines(t *testing.T) {
	t.Parallel()
	_, path, _ := streaming(t, func(st *stream) {
		select {
		case <-st.Done():
			_, _ = st.Write([]byte("too early"))
		case <-time.After(headerTime + 500*time.Millisecond):
			_, _ = st.Write([]byte("in time"))
		}
	})
	_, body, _ := openStream(t, path)
	b, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "in time", string(b))
}
