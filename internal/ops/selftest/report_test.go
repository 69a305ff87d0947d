// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInLeases(t *testing.T) {
	mac := []byte{0x5a, 0x32, 0, 1, 0x0a, 0xff}
	assert.True(t, inLeases("{\n\thw_address=1,5a:32:0:1:a:ff\n}", mac))
	assert.True(t, inLeases("hw_address=1,5A:32:00:01:0A:FF", mac))
	assert.False(t, inLeases("\thw_address=1,5a:32:0:1:a:fe\n", mac))
	assert.False(t, inLeases("\thw_address=1,5a:32:0:1:a\n\thw_address=1,x:y\n\thw_address=ff,5a:32:0:1:a:ff", mac))
}

func TestJSON(t *testing.T) {
	rep := report{
		Schema: Schema, Environment: Facts{{"b", 1}, {"a", "x\"y"}},
		Steps: []Step{{Name: "open", Outcome: stepPassed}, {Name: "info", Outcome: stepFailed, Values: Facts{{"mtu_bytes", 1500}}}},
	}
	rep.finish("")
	b, err := json.Marshal(rep)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	assert.Equal(t, "fail", m["verdict"])
	assert.Equal(t, map[string]any{"mtu_bytes": 1500.0}, m["network"])
	assert.Equal(t, map[string]any{}, m["steps"].([]any)[0].(map[string]any)["values"])
	assert.Equal(t, []any{}, m["log"])
	assert.Equal(t, map[string]any{"b": 1.0, "a": "x\"y"}, m["environment"])
}

// TestText: a report is one line per step whatever errors hold, so that it survives being pasted.
func TestText(t *testing.T) {
	rep := report{Environment: Facts{{"uid", 501}}, Steps: []Step{
		{Name: "open", Outcome: stepPassed, Text: "started"},
		{Name: "full-frame", Outcome: stepFailed, Text: "one\ntwo\x1b[31m"},
	}}
	rep.finish("")
	rep.Log = []string{"WARN a\nb"}
	assert.Equal(t, `socket_vmnet2 selftest

uid         501

pass  open        started
fail  full-frame  one; two; [31m

log: WARN a; b

verdict: fail: 1 passed, 1 failed, 0 skipped in 0.0 s
`, text(t, &rep))
}

func TestEntitlement(t *testing.T) {
	const key = "<key>com.apple.security.virtualization</key>"
	assert.Equal(t, "yes: com.apple.security.virtualization", entitlement([]byte("<dict>"+key+"\n<true/></dict>"), nil))
	assert.Equal(t, "no: signed without com.apple.security.virtualization", entitlement([]byte("<dict>"+key+"<false/></dict>"), nil))
	assert.Equal(t, "not known: exit status 1: not signed", entitlement([]byte("not signed\n"), errors.New("exit status 1")))
	assert.Equal(t, "not known: none", entitlement(nil, errors.New("none")))
}
