// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// fakeSource is a daemon with clients 1 to n.
type fakeSource struct {
	mu     sync.Mutex
	n      uint64
	gone   map[uint64]bool
	level  string
	by     hostfs.Peer  // who changed something
	made   atomic.Int32 // descriptions
	during func()       // called while one is made
}

func (f *fakeSource) Status() status.Status {
	f.made.Add(1)
	if f.during != nil {
		f.during()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := status.Status{
		Format: status.Format, Now: time.Unix(1, 0).UTC(), Daemon: status.Daemon{Version: "v1", PID: 4711, Socket: "/s", Uptime: 60.5, LogLevel: f.level},
		Clients: []status.Client{},
		Health:  []status.Problem{{Code: status.Storm, Severity: status.Warning, Clients: []uint64{2}, Text: "it storms", Fix: []string{"wait"}}},
	}
	for id := range f.n {
		if !f.gone[id+1] {
			s.Clients = append(s.Clients, status.Client{ID: id + 1, Name: fmt.Sprint("vm", id+1), Transport: status.Stream})
		}
	}
	return s
}

func (f *fakeSource) Kick(ctx context.Context, id uint64, by hostfs.Peer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case id == 13:
		return errors.New("it cannot be")
	case id == 14:
		<-ctx.Done()
		return ctx.Err()
	case id == 0 || id > f.n || f.gone[id]:
		return NoClient(id)
	}
	f.gone[id], f.by = true, by
	return nil
}

func (f *fakeSource) SetLevel(level string, by hostfs.Peer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if level != "debug" && level != "info" {
		return fmt.Errorf("%q is no level", level)
	}
	f.level, f.by = level, by
	return nil
}

// serve has o tell of f.
func (f *fakeSource) serve(o *Options) { o.Describe, o.Kick, o.SetLevel = f.Status, f.Kick, f.SetLevel }

// source is a served fakeSource with n clients.
func source(t *testing.T, n uint64) (*fakeSource, string) {
	t.Helper()
	f := &fakeSource{n: n, gone: map[uint64]bool{}, level: "info"}
	_, path := serve(t, f.serve)
	return f, path
}

func TestReading(t *testing.T) {
	_, path := source(t, 2)
	const client2 = `"id":2,"name":"vm2","transport":"stream"`
	for _, c := range []struct {
		what    string
		status  int
		members []string // of the answer, in this order
		has     string
	}{
		{"/v1/status", 200, []string{"clients", "daemon", "format", "health", "network", "now", "totals"}, client2},
		{"/v1/clients", 200, []string{"clients", "format", "now"}, client2},
		{"/v1/health", 200, []string{"format", "health", "now"}, `"text":"it storms"`},
		{"/v1/version", 200, nil, `{"version":"v1","pid":4711,"socket":"/s","uptime_s":60.5}`},
		{"/v1/log-level", 200, []string{"level"}, `{"level":"info"}`},
		{"/v1/clients/2", 200, nil, `{` + client2},
		{"/v1/clients/3", 404, nil, `{"error":{"code":"no_client","text":"there is no client 3 now; GET /v1/clients has those that there are"}}`},
		{"/v1/clients/18446744073709551616", 400, nil, `"bad_id"`},
		{"/v1/clients/vm2", 400, nil, `{"error":{"code":"bad_id","text":"\"vm2\" is not a client's number; GET /v1/clients has them"}}`},
		{"/v1/clients/%ff%00%0a", 400, nil, `"\"?? \" is not a client's number`},
		{"/v1/clients/1%2f2", 400, nil, `"bad_id"`},
		{"/v1/clients/", 404, nil, `"not_found"`},
		{"/v1//status", 404, nil, `"not_found"`},
		{"/v1/status?watch=1", 400, nil, `{"error":{"code":"bad_query","text":"/v1/status takes no parameters, and got watch=1"}}`},
	} {
		t.Run(c.what, func(t *testing.T) {
			status, answer, err := ask(t, path, http.MethodGet, c.what)
			assert.Equal(t, c.status, status, err)
			assert.Contains(t, answer, c.has)
			if c.members != nil {
				var m map[string]json.RawMessage
				require.NoError(t, json.Unmarshal([]byte(answer), &m))
				assert.ElementsMatch(t, c.members, slices.Collect(maps.Keys(m)))
			}
		})
	}
}

// TestMethods: each path says what it takes, and HEAD is GET without the body.
func TestMethods(t *testing.T) {
	_, path := source(t, 2)
	for _, c := range []struct{ line, want, allow string }{
		{"HEAD /v1/status", "200 OK", ""},
		{"OPTIONS /v1/status", "405 Method Not Allowed", "GET, HEAD"},
		{"OPTIONS *", "404 Not Found", ""},
		{"POST /v1/clients/1", "405 Method Not Allowed", "DELETE, GET, HEAD"},
		{"DELETE /v1/log-level", "405 Method Not Allowed", "GET, HEAD, PUT"},
		{"CONNECT x:80", "404 Not Found", ""},
		{"GET http://elsewhere/v1/version", "200 OK", ""},
		{"GET file:///etc/passwd", "404 Not Found", ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			answer := raw(t, path, c.line+" HTTP/1.1\r\nHost: x\r\n\r\n")
			head, body, ok := strings.Cut(answer, "\r\n\r\n")
			require.True(t, ok)
			assert.Contains(t, head, "HTTP/1.1 "+c.want+"\r\n")
			assert.Contains(t, head, "Content-Type: application/json")
			if c.allow != "" {
				assert.Contains(t, head, "Allow: "+c.allow+"\r\n")
				assert.Contains(t, body, "takes "+c.allow)
			}
			if strings.HasPrefix(c.line, "HEAD") {
				assert.Empty(t, body)
			} else {
				assert.True(t, json.Valid([]byte(body)), body)
			}
		})
	}
}

func TestKick(t *testing.T) {
	f, path := source(t, 20)
	me := hostfs.Peer{Known: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: os.Getpid()}
	_, before, err := ask(t, path, http.MethodGet, "/v1/clients/2")
	require.NoError(t, err)
	assert.Contains(t, before, "vm2")
	status, answer, err := ask(t, path, http.MethodDelete, "/v1/clients/2")
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"id":2,"ended":true}`, answer)
	assert.Equal(t, me, f.by)
	for _, c := range []struct {
		method, what, code string
		status             int
	}{
		{http.MethodGet, "/v1/clients/2", "no_client", 404}, // at once, whatever was answered before
		{http.MethodDelete, "/v1/clients/2", "no_client", 404},
		{http.MethodDelete, "/v1/clients/0", "no_client", 404},
		{http.MethodDelete, "/v1/clients/x", "bad_id", 400},
		{http.MethodDelete, "/v1/clients/13", "failed", 500},
	} {
		status, _, err = ask(t, path, c.method, c.what)
		assert.Equal(t, c.status, status, c.what)
		assert.Equal(t, c.code, errorOf(t, err).Code, c.what)
	}
	_, answer, err = ask(t, path, http.MethodDelete, "/v1/clients/14")
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":14,"ended":false}`, answer, "it takes long")
}

func TestLevel(t *testing.T) {
	f, path := source(t, 1)
	put := func(body any) (int, string, error) {
		status, b, err := Ask(t.Context(), path, http.MethodPut, "/v1/log-level", body)
		return status, strings.TrimSpace(string(b)), err
	}
	status, answer, err := put(Level{"debug"})
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"level":"debug"}`, answer)
	assert.Equal(t, "debug", f.level)
	assert.Equal(t, os.Getpid(), f.by.PID)
	_, answer, err = ask(t, path, http.MethodGet, "/v1/status")
	require.NoError(t, err)
	assert.Contains(t, answer, `"log_level":"debug"`)
	status, _, err = put(Level{"loud"})
	assert.Equal(t, 400, status)
	assert.Equal(t, Error{400, "bad_level", `"loud" is no level`}, errorOf(t, err))
	assert.Equal(t, "debug", f.level)
}

// TestBodies is what a client may send as one.
func TestBodies(t *testing.T) {
	f, path := source(t, 1)
	for _, c := range []struct{ name, body, want string }{
		{"none", "", "400 bad_json the body is not such a JSON object, at byte 0: EOF"},
		{"no JSON", "level=debug", "400 bad_json the body is not such a JSON object, at byte 0: invalid character 'l' looking for beginning of value"},
		{"another type", `{"level":7}`, `400 bad_json the body is not such a JSON object, at byte 11: cannot unmarshal number into Go struct field Level.level`},
		{"another member", `{"level":"debug","for":"1m"}`, `400 bad_json the body is not such a JSON object, at byte 28: unknown field "for"`},
		{"something behind it", `{"level":"debug"} {}`, "400 bad_json the body is not such a JSON object, at byte 19: something follows the JSON object"},
		{"null", `null`, `400 bad_level "" is no level`},
		{"no UTF-8", "{\"level\":\"\xff\"}", `400 bad_level "�" is no level`},
		{"deep", strings.Repeat("[", 60000), "400 bad_json the body is not such a JSON object, at byte"},
		{"large", `{"level":"` + strings.Repeat("x", maxBody) + `"}`, "413 too_large the body is larger than 65536 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := raw(t, path, fmt.Sprintf("PUT /v1/log-level HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(c.body), c.body))
			head, body, _ := strings.Cut(answer, "\r\n\r\n")
			var e errorBody
			require.NoError(t, json.Unmarshal([]byte(body), &e), answer)
			assert.Contains(t, fmt.Sprint(strings.Fields(head)[1], " ", e.Error.Code, " ", e.Error.Text), c.want)
			assert.Less(t, len(body), 1000)
		})
	}
	assert.Equal(t, "info", f.level)
}

// TestLateBody: one that does not come is not waited for.
func TestLateBody(t *testing.T) {
	t.Parallel()
	_, path := source(t, 1)
	var wg sync.WaitGroup
	for _, body := range []string{"Content-Length: 20\r\n\r\n{\"level\"", "Transfer-Encoding: chunked\r\n\r\n4\r\n{\"le"} {
		wg.Go(func() {
			answer := raw(t, path, "PUT /v1/log-level HTTP/1.1\r\nHost: x\r\n"+body)
			assert.Contains(t, answer, "408 Request Timeout")
			assert.Contains(t, answer, "the body did not come within 5s")
		})
	}
	wg.Wait()
}

// TestCache: however many ask, few descriptions are made, one at a time.
func TestCache(t *testing.T) {
	t.Parallel()
	f, path := source(t, 256)
	var inside atomic.Int32
	f.during = func() {
		assert.Equal(t, int32(1), inside.Add(1))
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	began := time.Now()
	var wg sync.WaitGroup
	var answered atomic.Int32
	for range 32 {
		wg.Go(func() {
			for range 10 {
				status, answer, err := ask(t, path, http.MethodGet, "/v1/status")
				if status == 200 && assert.NoError(t, err) {
					answered.Add(1)
					assert.Greater(t, len(answer), 256*100)
				}
			}
		})
	}
	wg.Wait()
	most := int32(time.Since(began)/cacheTime) + 1
	t.Logf("%d answers in %v from %d descriptions", answered.Load(), time.Since(began), f.made.Load())
	assert.Equal(t, int32(320), answered.Load())
	assert.LessOrEqual(t, f.made.Load(), most)
}

// TestPanic: a handler's fault is that of one request, and told once.
func TestPanic(t *testing.T) {
	f, path := source(t, 1)
	f.during = func() { panic("no") }
	for range 3 {
		status, _, err := ask(t, path, http.MethodGet, "/v1/status")
		assert.Equal(t, 500, status)
		assert.Equal(t, "internal", errorOf(t, err).Code)
	}
	f.during = nil
	_, _, err := ask(t, path, http.MethodGet, "/v1/status")
	require.NoError(t, err)
}

// TestOtherUser: another user's program reads, and is told who may do the rest.
func TestOtherUser(t *testing.T) {
	f := &fakeSource{n: 2, gone: map[uint64]bool{}, level: "info"}
	var o Options
	f.serve(&o)
	h := New(o).handler
	other := context.WithValue(t.Context(), connKey{}, &conn{peer: hostfs.Peer{Known: true, UID: uint32(os.Geteuid()) + 1}})
	may := func(what string) string {
		return `403 {"error":{"code":"forbidden","text":"` + whoMay(os.Geteuid(), what) + `"}}`
	}
	for what, want := range map[string]string{
		"GET /v1/status":       `200 {"format":1`,
		"GET /v1/health":       `200 {"format":1`,
		"GET /v1/clients/1":    `200 {"id":1`,
		"GET /v1/log-level":    `200 {"level":"info"}`,
		"DELETE /v1/clients/1": may("disconnect its clients"),
		"POST /v1/upgrade":     may("upgrade it"),
		"PUT /v1/log-level":    may("change what it logs"),
	} {
		method, url, _ := strings.Cut(what, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(other, method, url, nil))
		assert.Contains(t, fmt.Sprint(w.Code, " ", w.Body), want)
	}
	assert.Equal(t, "info", f.level)
	assert.Empty(t, f.gone)
}

func TestWhoMay(t *testing.T) {
	assert.Equal(t, "only root may upgrade it, as this is a daemon of root: use sudo", whoMay(0, "upgrade it"))
	assert.Equal(t, "only root and user 501, whose daemon this is, may upgrade it", whoMay(501, "upgrade it"))
}

// FuzzBody: whatever is sent as a body, it is taken or refused in words that fit into an answer.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"level":"debug"}`, `{"level":1}`, `{"x":{}}`, "", "[", "\xff", `{"level":"\ud800"}`, `{"level":"a"}{`, `{"LEVEL":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Level
		if err := readJSON(httptest.NewRequest(http.MethodPut, "/", bytes.NewReader(b)), &l); err != nil {
			out, merr := json.Marshal(errorBody{err})
			require.NoError(t, merr)
			assert.Less(t, len(out), 4096)
			return
		}
		assert.True(t, json.Valid(b))
	})
}
