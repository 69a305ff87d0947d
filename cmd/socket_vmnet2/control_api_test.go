// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
)

// ask asks at the daemon's control socket and decodes the answer into v.
func (p *process) ask(t *testing.T, method, what string, body, v any) (code int, err error) {
	t.Helper()
	code, answer, err := control.Ask(t.Context(), p.sock+".d/control", method, what, body)
	if err == nil && v != nil {
		require.NoError(t, json.Unmarshal(answer, v), string(answer))
	}
	return code, err
}

// TestControlLogLevel: it changes while the daemon runs, and an upgrade keeps it.
func TestControlLogLevel(t *testing.T) {
	p := start(t, "--log-format=json", "--log-level=error")
	level := func(want string) {
		t.Helper()
		var l control.Level
		_, err := p.ask(t, http.MethodGet, "/v1/log-level", nil, &l)
		require.NoError(t, err)
		assert.Equal(t, want, l.Level)
	}
	level("error")
	p.talkers(t).check("and nothing of it is logged")
	assert.Empty(t, p.stderr.String())
	code, err := p.ask(t, http.MethodPut, "/v1/log-level", control.Level{Level: "loud"}, nil)
	assert.Equal(t, 400, code)
	require.EqualError(t, err, `"loud" is no level: there are debug, info, warn and error`)
	for _, want := range []string{"debug", "info", "warn"} {
		_, err := p.ask(t, http.MethodPut, "/v1/log-level", control.Level{Level: want}, nil)
		require.NoError(t, err)
		level(want)
		p.says(t, fmt.Sprintf(`"to":"%s","peer_uid":%d`, want, os.Geteuid()))
	}
	_, err = p.ask(t, http.MethodPost, "/v1/upgrade", nil, nil)
	require.NoError(t, err)
	level("warn")
	_, err = p.ask(t, http.MethodPut, "/v1/log-level", control.Level{Level: "info"}, nil)
	require.NoError(t, err)
	p.talkers(t)
	p.says(t, `"msg":"client connected"`)
	p.stop(t)
	p.checkJSONLog(t)
}

// checkJSONLog: each line is an object with a time, a level and a message.
func (p *process) checkJSONLog(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(p.stderr.String()) {
		var v struct {
			Time       time.Time
			Level, Msg string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		assert.WithinDuration(t, time.Now(), v.Time, time.Hour)
		assert.Contains(t, []string{"DEBUG", "INFO", "WARN", "ERROR"}, v.Level)
		assert.NotEmpty(t, v.Msg)
	}
}

// TestLogForms: a whole life of the daemon in each form, with the same events.
func TestLogForms(t *testing.T) {
	said := map[string]string{}
	for _, format := range []string{"plain", "text", "json"} {
		dir := t.TempDir()
		p := launch(t, "socket_vmnet2", filepath.Join(dir, "s"), "--log-format="+format, "--pidfile="+dir+"/pid")
		p.ready(t)
		tk := p.talkers(t)
		tk.check("hello")
		require.NoError(t, tk.a.Close())
		p.says(t, "client gone")
		p.stop(t)
		if format == "json" {
			p.checkJSONLog(t)
		}
		said[format] = p.stderr.String()
	}
	for format, want := range map[string][]string{
		"plain": {`INFO \| Created pidfile ".*/pid" for process \d+`, `INFO \| Accepted a connection \(fd \d+\)`, `INFO \| client gone client=\d+ reason=EOF duration=[\d.]+m?s peer_uid=`},
		"text": {
			`(?m)^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg="created pidfile" path=.*/pid pid=\d+$`,
			`(?m)^time=\S+ level=INFO msg="client gone" client=\d+ reason=EOF duration=[\d.]+ peer_uid=\d+ peer_gid=\d+ peer_pid=\d+ mac=02:00:00:00:00:a1 frames_to_net=\d+`,
			`(?m)^time=\S+ level=INFO msg="received signal" signal="?Terminated(: 15")?$`,
		},
		"json": {
			`"level":"INFO","msg":"created pidfile","path":".*/pid","pid":\d+}`,
			`"level":"INFO","msg":"accepted a connection","client":\d+,"fd":\d+}`,
			`"level":"INFO","msg":"client gone","client":\d+,"reason":"EOF","duration":[\d.]+,"peer_uid":\d+,"peer_gid":\d+,"peer_pid":\d+,"mac":"02:00:00:00:00:a1","frames_to_net":\d+`,
		},
	} {
		for _, re := range want {
			assert.Regexp(t, re, said[format])
		}
	}
}
