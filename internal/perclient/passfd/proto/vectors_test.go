// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vectors is the file that module attach is tested with too.
type vectors struct {
	Version  int
	MaxLine  int `json:"max_line"`
	Codes    []Code
	Requests []struct {
		Name, Line string
		Pad        int
		Request    *wireRequest
		Code       Code
	}
	Encode []struct {
		Name, Line string
		Request    wireRequest
	}
	Replies []struct {
		Name, Line string
		Reply      json.RawMessage
	}
	Decode []struct {
		Name, Line string
		Pad        int
		Reply      json.RawMessage
		Bad        bool
	}
}

// wireRequest is a request as the vectors have it.
type wireRequest struct {
	Version     int       `json:"version"`
	Transport   Transport `json:"transport"`
	Name        string    `json:"name"`
	MAC         string    `json:"mac"`
	InterfaceID string    `json:"interface_id"`
	Wait        bool      `json:"wait"`
}

func (w wireRequest) request(t *testing.T) Request {
	t.Helper()
	r := Request{Version: w.Version, Transport: w.Transport, Name: w.Name, Wait: w.Wait}
	var err error
	if w.MAC != "" {
		r.MAC, err = net.ParseMAC(w.MAC)
		require.NoError(t, err)
	}
	if w.InterfaceID != "" {
		r.InterfaceID, err = ParseUUID(w.InterfaceID)
		require.NoError(t, err)
	}
	return r
}

// wire is r as the vectors have it.
func (r Request) wire() wireRequest {
	w := wireRequest{r.Version, r.Transport, r.Name, r.MAC.String(), "", r.Wait}
	if r.InterfaceID != (UUID{}) {
		w.InterfaceID = r.InterfaceID.String()
	}
	return w
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("../../../../attach/testdata/protocol.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &v))
	return v
}

// padded puts n letters in place of the ~ in s.
func padded(s string, n int) string {
	if n == 0 {
		return s
	}
	return strings.Replace(s, "~", strings.Repeat("a", n), 1)
}

// readLine sends line over a connection that then ends, and reads it as a message.
func readLine(t *testing.T, line string, limit int) (Message, error) {
	t.Helper()
	a, b := connPair(t)
	go func() {
		_, _ = a.Write([]byte(line))
		_ = a.CloseWrite()
	}()
	require.NoError(t, b.SetReadDeadline(time.Now().Add(10*time.Second)))
	m, err := ReadMessage(b, limit)
	assert.Equal(t, None, m.FD)
	return m, err
}

func TestConstantsOfVectors(t *testing.T) {
	v := readVectors(t)
	assert.Equal(t, Version, v.Version)
	assert.Equal(t, MaxLine, v.MaxLine)
	ours := []Code{BadRequest, unsupportedVersion, tooLong, BadDescriptor, IDInUse, Full, Stopping, NoNetwork, Denied, Internal}
	assert.Equal(t, ours, v.Codes)
}

func TestRequestVectors(t *testing.T) {
	v := readVectors(t)
	require.NotEmpty(t, v.Requests)
	for _, c := range v.Requests {
		t.Run(c.Name, func(t *testing.T) {
			var r Request
			m, err := readLine(t, padded(c.Line, c.Pad), MaxLine)
			if err == nil {
				r, err = DecodeRequest(m.Line)
			}
			if c.Code == "" {
				require.NoError(t, err)
				want := *c.Request
				want.Name = padded(want.Name, c.Pad)
				assert.Equal(t, want, r.wire())
				return
			}
			require.Error(t, err)
			if c.Line == "" { // told by the server, which knows whether a client is there to be told
				assert.ErrorContains(t, err, "EOF")
				return
			}
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.Code, e.Code)
			assert.NotEmpty(t, e.Text)
		})
	}
}

func TestEncodeVectors(t *testing.T) {
	v := readVectors(t)
	require.NotEmpty(t, v.Encode)
	for _, c := range v.Encode {
		t.Run(c.Name, func(t *testing.T) {
			assert.Equal(t, c.Line, string(c.Request.request(t).Encode()))
		})
	}
	assert.Equal(t, `{"version":1,"transport":"dgram"}`+"\n", string(Request{}.Encode()), "the zero request")
}

func TestReplyVectors(t *testing.T) {
	v := readVectors(t)
	require.NotEmpty(t, v.Replies)
	for _, c := range v.Replies {
		t.Run(c.Name, func(t *testing.T) {
			r, err := DecodeReply([]byte(strings.TrimSuffix(c.Line, "\n")))
			require.NoError(t, err)
			assert.Equal(t, c.Line, string(r.Encode()))
			assert.JSONEq(t, string(c.Reply), string(r.Encode()))
		})
	}
}

func TestDecodeVectors(t *testing.T) {
	v := readVectors(t)
	require.NotEmpty(t, v.Decode)
	for _, c := range v.Decode {
		t.Run(c.Name, func(t *testing.T) {
			var r Reply
			m, err := readLine(t, padded(c.Line, c.Pad), MaxReply)
			if err == nil {
				r, err = DecodeReply(m.Line)
			}
			if c.Bad {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.JSONEq(t, string(c.Reply), string(r.Encode()))
		})
	}
}

// TestMoreBadRequests is what the vectors do not have. The text names the key and what is wrong with it.
func TestMoreBadRequests(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       Code
		says       []string
	}{
		{"a key twice", `{"name":"a","name":"b"}`, BadRequest, []string{`"name"`, "twice"}},
		{"a key twice, once escaped", `{"name":"a","n\u0061me":"b"}`, BadRequest, []string{`"name"`, "twice"}},
		{"null for a name", `{"name":null}`, BadRequest, []string{"name", "null"}},
		{"null for wait", `{"wait":null}`, BadRequest, []string{"wait", "null"}},
		{"version as fraction", `{"version":1.0}`, BadRequest, []string{"version", "1.0"}},
		{"version beyond 64 bits", `{"version":99999999999999999999}`, unsupportedVersion, []string{"up to 1"}},
		{"version far below", `{"version":-99999999999999999999}`, BadRequest, []string{"version"}},
		{"no UTF-8", "{\"name\":\"\xff\"}", BadRequest, []string{"UTF-8"}},
		{"NUL in the name", `{"name":"\u0000"}`, BadRequest, []string{"name"}},
		{"bad transport is quoted", `{"transport":"ring"}`, BadRequest, []string{"transport", `"ring"`, "dgram"}},
		{"bad MAC is quoted", `{"mac":"01:00:5e:00:00:01"}`, BadRequest, []string{"mac", `"01:00:5e:00:00:01"`}},
		{"MAC with an infiniband length", `{"mac":"00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"}`, BadRequest, []string{"mac"}},
		{"a long value is cut", `{"transport":"` + strings.Repeat("x", 3000) + `"}`, BadRequest, []string{`x..."`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeRequest([]byte(c.line))
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.code, e.Code)
			for _, s := range c.says {
				assert.Contains(t, e.Text, s)
			}
			assert.Less(t, len(Reply{Error: e}.Encode()), MaxLine)
		})
	}
}

// TestKeysAreCaseSensitive: encoding/json by itself would take Name for name.
func TestKeysAreCaseSensitive(t *testing.T) {
	r, err := DecodeRequest([]byte(`{"Name":"a","VERSION":7,"Transport":1}`))
	require.NoError(t, err)
	assert.Equal(t, Request{Version: 1, Transport: Datagram}, r)
}

func TestLongErrorTextIsCut(t *testing.T) {
	r := Reply{Error: &Error{Code: Internal, Text: strings.Repeat("ü\"", 5000)}}
	b := r.Encode()
	assert.Less(t, len(b), MaxLine)
	back, err := DecodeReply(b)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(back.Error.Text, "..."))
	assert.NotContains(t, back.Error.Text, "\ufffd")
}

func FuzzDecodeRequest(f *testing.F) {
	v := readVectors(f)
	for _, c := range v.Requests {
		f.Add([]byte(strings.TrimSuffix(padded(c.Line, c.Pad), "\n")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRequest(b)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			assert.Contains(t, []Code{BadRequest, unsupportedVersion}, e.Code)
			assert.Less(t, len(Reply{Error: e}.Encode()), MaxLine)
			return
		}
		assert.Equal(t, Version, r.Version)
		assert.LessOrEqual(t, len(r.Name), maxName)
		assert.Contains(t, []Transport{Datagram, Stream}, r.Transport)
		assert.True(t, r.MAC == nil || len(r.MAC) == 6 && r.MAC[0]&1 == 0 && slices.Max(r.MAC) > 0)
		again, err := DecodeRequest(r.Encode()[:len(r.Encode())-1])
		require.NoError(t, err)
		assert.Equal(t, r, again)
	})
}

func FuzzDecodeReply(f *testing.F) {
	v := readVectors(f)
	for _, c := range v.Replies {
		f.Add([]byte(c.Line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReply(b)
		if err != nil {
			return
		}
		again, err := DecodeReply(r.Encode())
		require.NoError(t, err)
		if r.Error == nil {
			assert.Equal(t, r, again)
		}
	})
}
