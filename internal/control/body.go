// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// readJSON decodes the body of r into v, a pointer to a struct, of which all members are known and nothing follows. When it cannot,
// r has been answered.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	b, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		WriteError(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is larger than %d bytes", large.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		WriteError(w, http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not come within %v", headerTime))
	case err != nil:
		WriteError(w, http.StatusBadRequest, "bad_body", fmt.Sprintf("the body cannot be read: %v", err))
	default:
		if err = decode(b, v); err != nil {
			WriteError(w, http.StatusBadRequest, "bad_json", err.Error())
		}
	}
	return err == nil
}

// decode is what readJSON takes.
func decode(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("the body is empty: a JSON object is expected")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the body is no JSON: it ends at byte %d, before the JSON does", len(b))
		}
		return inOurWords(err, d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the JSON object, at byte %d of the body", d.InputOffset())
	}
	return nil
}

// inOurWords tells what is wrong with a body, and where. at is how far it was read.
func inOurWords(err error, at int64) error {
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the body is no JSON, at byte %d: %s", s.Offset, clip(s.Error()))
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := "the body"
		if t.Field != "" {
			what = fmt.Sprintf("%q", clip(t.Field))
		}
		return fmt.Errorf("%s is a JSON %s, and has to be %s, at byte %d", what, t.Value, kindText(t), t.Offset)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no member %s, at byte %d", clip(field), at)
	}
	return fmt.Errorf("the body is no such JSON: %s", clip(err.Error()))
}

// kindText is JSON's name of what was wanted.
func kindText(t *json.UnmarshalTypeError) string {
	switch k := t.Type.Kind().String(); {
	case k == "struct" || k == "map":
		return "an object"
	case k == "slice" || k == "array":
		return "an array"
	case k == "bool":
		return "true or false"
	case k == "string":
		return "a string"
	case strings.HasPrefix(k, "uint"):
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Type.Bits()-1)
	default:
		return "a number"
	}
}
