// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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
