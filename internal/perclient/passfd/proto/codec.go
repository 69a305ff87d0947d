// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errReply is a line that is no reply of this protocol.
var errReply = errors.New("the answer is none of this protocol")

// newError makes an error for the other side.
func newError(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// badValue says which key has a value that it cannot have, and what it takes.
func badValue(key, value, want string) *Error {
	const most = 200 // bytes of a value that are quoted
	if len(value) > most {
		value = value[:most] + "..."
	}
	return newError(BadRequest, "%s is %q, which is not %s", key, value, want)
}

// DecodeRequest decodes a request, without its line end, and fills in what is left out. Keys that are not known are ignored;
// one that comes twice is an error. Every error is an *Error.
func DecodeRequest(line []byte) (Request, error) {
	keys, err := object(line)
	if err != nil {
		return Request{}, err
	}
	r := Request{Version: Version, Transport: Datagram}
	if v, ok := keys["version"]; ok { // first: a later version may have other types
		if r.Version, err = decodeVersion(v); err != nil {
			return Request{}, err
		}
	}
	for _, k := range []struct {
		name string
		set  func(string) error
	}{
		{"transport", func(s string) (err error) { r.Transport, err = parseTransport(s); return err }},
		{"name", func(s string) error { r.Name = s; return CheckName(s) }},
		{"mac", func(s string) (err error) { r.MAC, err = ParseMAC(s); return err }},
		{"interface_id", func(s string) (err error) { r.InterfaceID, err = ParseUUID(s); return err }},
	} {
		s, err := text(keys, k.name)
		if err == nil && s != "" { // an empty one is as if it were missing
			err = k.set(s)
		}
		if err != nil {
			return Request{}, err
		}
	}
	if v, ok := keys["wait"]; ok {
		if r.Wait, err = strconv.ParseBool(string(v)); err != nil || len(v) < 4 {
			return Request{}, badValue("wait", string(v), "true or false")
		}
	}
	return r, nil
}

// text is the value of a key that has to be a text, empty if it is not there.
func text(keys map[string]json.RawMessage, name string) (s string, err error) {
	v, ok := keys[name]
	if !ok {
		return "", nil
	}
	if v[0] != '"' || json.Unmarshal(v, &s) != nil { // null would be one for json
		return "", badValue(name, string(v), "a text")
	}
	return s, nil
}

// object takes a JSON object apart by its keys.
func object(line []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, newError(BadRequest, "the request is not UTF-8")
	}
	if !json.Valid(line) {
		return nil, newError(BadRequest, "the request is not one JSON object in one line, such as {\"version\":1}")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, _ := d.Token(); t != json.Delim('{') {
		return nil, newError(BadRequest, "the request is JSON but no object, such as {\"version\":1}")
	}
	keys := map[string]json.RawMessage{}
	for d.More() { // none of it fails: it is JSON
		t, _ := d.Token()
		key, _ := t.(string)
		if _, twice := keys[key]; twice {
			return nil, newError(BadRequest, "the key %.100q is there twice", key)
		}
		var v json.RawMessage
		_ = d.Decode(&v)
		keys[key] = v
	}
	return keys, nil
}

// decodeVersion reads the version of a request.
func decodeVersion(v json.RawMessage) (int, error) {
	s := string(v)
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && s[0] != '-', err == nil && n > Version:
		return 0, newError(unsupportedVersion,
			"the request is of version %.30s, this daemon knows versions up to %d: it is older than the client", s, Version)
	case err != nil || n < 1:
		return 0, badValue("version", s, "a whole number from 1 on")
	}
	return int(n), nil
}

// parseTransport reads the name of a transport.
func parseTransport(s string) (Transport, error) {
	if t := Transport(s); t == Datagram || t == Stream {
		return t, nil
	}
	return "", badValue("transport", s, `"dgram" or "stream"`)
}

// CheckName checks the name of a client, which goes into logs: characters that print, and not too many.
func CheckName(s string) error {
	if len(s) > maxName {
		return badValue("name", s, "a name of at most "+strconv.Itoa(maxName)+" bytes")
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return badValue("name", s, "a name of characters that print")
	}
	return nil
}

// Encode is the line that says r, with its line end.
func (r Request) Encode() []byte {
	w := struct {
		Version     int       `json:"version"`
		Transport   Transport `json:"transport"`
		Name        string    `json:"name,omitempty"`
		MAC         string    `json:"mac,omitempty"`
		InterfaceID string    `json:"interface_id,omitempty"`
		Wait        bool      `json:"wait,omitempty"`
	}{r.Version, r.Transport, r.Name, r.MAC.String(), "", r.Wait}
	if w.Version == 0 {
		w.Version = Version
	}
	if w.Transport == "" {
		w.Transport = Datagram
	}
	if r.InterfaceID != (UUID{}) {
		w.InterfaceID = r.InterfaceID.String()
	}
	return line(w)
}

// Encode is the line that says r, with its line end. It is shorter than MaxLine.
func (r Reply) Encode() []byte {
	if r.Version == 0 {
		r.Version = Version
	}
	if r.Error == nil {
		return line(r)
	}
	e := *r.Error
	if len(e.Text) > maxText {
		e.Text = strings.ToValidUTF8(e.Text[:maxText], "") + "..."
	}
	return line(struct {
		Version int    `json:"version"`
		Error   *Error `json:"error"`
	}{r.Version, &e})
}

// line is v as a line of JSON. v is one of ours, which all can be encoded.
func line(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// DecodeReply decodes a reply, without its line end. A reply that tells of an error is no error here. Keys that are not
// known are ignored.
func DecodeReply(b []byte) (Reply, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	var w struct {
		Reply
		Error *Error `json:"error"`
	}
	if err := d.Decode(&w); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", errReply, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Reply{}, fmt.Errorf("%w: more than one value", errReply)
	}
	switch {
	case w.Error != nil && w.Error.Code == "":
		return Reply{}, fmt.Errorf("%w: an error without a code", errReply)
	case w.Version < 1:
		return Reply{}, fmt.Errorf("%w: it has no version", errReply)
	case w.Error != nil:
		return Reply{Version: w.Version, Error: w.Error}, nil
	case w.Version > Version:
		return Reply{}, fmt.Errorf("%w: it is of version %d, this program knows versions up to %d", errReply, w.Version, Version)
	}
	if _, err := parseTransport(string(w.Transport)); err != nil {
		return Reply{}, fmt.Errorf("%w: its transport is %q", errReply, w.Transport)
	}
	return w.Reply, nil
}
