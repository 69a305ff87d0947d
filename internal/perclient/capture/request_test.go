// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeRequest(t *testing.T) {
	long := "[" + strings.TrimSuffix(strings.Repeat("[0,0,0,0],", maxFilter), ",") + ",[6,0,0,1]]"
	for _, c := range []struct {
		name, body string
		want       Request
		wrong      string // in the error
	}{
		{name: "nothing"},
		{name: "empty", body: "{}"},
		{name: "all", body: `{"clients":[3,9],"snaplen":96,"count":7,"filter":[[6,0,0,262144]]}`, want: Request{
			Clients: []uint64{3, 9}, SnapLen: 96, Count: 7, Filter: []instruction{{6, 0, 0, 262144}},
		}},
		{name: "shortest snaplen", body: `{"snaplen":14}`, want: Request{SnapLen: 14}},
		{name: "snaplen too short", body: `{"snaplen":13}`, wrong: "snaplen 13 is not between 14 and 69632"},
		{name: "snaplen too long", body: `{"snaplen":69633}`, wrong: "snaplen"},
		{name: "unknown field", body: `{"path":"/etc/passwd"}`, wrong: "path"},
		{name: "more behind it", body: `{} {}`, wrong: "follows"},
		{name: "text", body: `tcp port 80`, wrong: "no JSON object"},
		{name: "cut", body: `{"clients":[`, wrong: "cannot be read"},
		{name: "client by name", body: `{"clients":["alpha"]}`, wrong: "clients"},
		{name: "too many clients", body: `{"clients":[1` + strings.Repeat(",1", maxClients) + `]}`, wrong: "1025 clients"},
		{name: "filter as text", body: `{"filter":"tcp"}`, wrong: "filter"},
		{name: "three numbers", body: `{"filter":[[6,0,0]]}`, wrong: "instruction 0 of the filter has not four numbers (code, jt, jf, k) but [6 0 0]"},
		{name: "code too large", body: `{"filter":[[65536,0,0,0]]}`, wrong: "instruction 0"},
		{name: "jump too large", body: `{"filter":[[21,0,256,0]]}`, wrong: "instruction 0"},
		{name: "fraction", body: `{"filter":[[6,0,0,0.5]]}`, wrong: "cannot be read"},
		{name: "no end", body: `{"filter":[[40,0,0,12]]}`, wrong: "must end with"},
		{name: "jump beyond it", body: `{"filter":[[5,0,0,4],[6,0,0,0]]}`, wrong: "jump"},
		{name: "division by zero", body: `{"filter":[[52,0,0,0],[6,0,0,0]]}`, wrong: "zero"},
		{name: "no such instruction", body: `{"filter":[[65535,0,0,0],[6,0,0,0]]}`, wrong: "instruction 0"},
		{name: "negation, which the machine does not know", body: `{"filter":[[132,0,0,0],[6,0,0,0]]}`, wrong: "instruction 0"},
		{name: "extension of Linux", body: `{"filter":[[40,0,0,4294963200],[6,0,0,0]]}`, wrong: "extension"},
		{name: "too many instructions", body: `{"filter":` + long + `}`, wrong: "4097 instructions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := DecodeRequest(strings.NewReader(c.body))
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, q)
			b, err := json.Marshal(q)
			require.NoError(t, err)
			again, err := DecodeRequest(strings.NewReader(string(b)))
			require.NoError(t, err)
			assert.Equal(t, q, again)
		})
	}
	_, err := DecodeRequest(iotest.ErrReader(errors.New("cut off")))
	assert.ErrorContains(t, err, "cut off")
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(`{"clients":[3,9],"snaplen":96,"count":7,"filter":[[6,0,0,262144]]}`, []byte("frame"))
	f.Add(`{"filter":[[40,0,0,12],[21,0,1,2048],[6,0,0,1],[6,0,0,0]]}`, numbered(1, 60))
	f.Add(`{"filter":[[177,0,0,14],[72,0,0,16],[37,0,1,1023],[6,0,0,1],[22,0,0,0]]}`, numbered(1, 60))
	f.Add(`{"filter":[[3,0,0,15],[2,0,0,15],[97,0,0,15],[7,0,0,0],[60,0,0,0],[108,0,0,0],[80,0,0,4294967295],[22,0,0,0]]}`, numbered(1, 14))
	f.Fuzz(func(t *testing.T, body string, data []byte) {
		q, err := DecodeRequest(strings.NewReader(body))
		if err != nil {
			return
		}
		vm, err := newFilter(q.Filter)
		require.NoError(t, err)
		accepts(vm, data)
		b, err := json.Marshal(q)
		require.NoError(t, err)
		_, err = DecodeRequest(strings.NewReader(string(b)))
		require.NoError(t, err)
	})
}
