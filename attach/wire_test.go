// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRequestVectors(t *testing.T) {
	v := readVectors(t)
	if v.Version != version {
		t.Fatalf("vectors of version %d, want %d", v.Version, version)
	}
	if len(v.Encode) < 2 || len(v.Requests) < 30 || len(v.Adopt) < 10 {
		t.Fatal("vectors are missing")
	}
	for _, e := range v.Encode {
		if got := string(e.Request.encode()); got != e.Line {
			t.Errorf("%s: %q, want %q", e.Name, got, e.Line)
		}
	}
	// What the daemon is to accept, this package must be able to say.
	for _, r := range v.Requests {
		if r.Request == nil {
			if !slices.Contains(v.Codes, r.Code) {
				t.Errorf("%s: code %q is not among the codes", r.Name, r.Code)
			}
			continue
		}
		r.Request.Name = pad(r.Request.Name, r.Pad)
		var again request
		if err := json.Unmarshal(r.Request.encode(), &again); err != nil || again != *r.Request {
			t.Errorf("%s: %+v became %+v, error %v", r.Name, *r.Request, again, err)
		}
	}
}

// TestCodes compares the codes here with the protocol's.
func TestCodes(t *testing.T) {
	got := []Code{
		ErrBadRequest, ErrUnsupportedVersion, ErrTooLong, ErrBadDescriptor, ErrIDInUse, ErrFull, ErrStopping, ErrNoNetwork,
		ErrDenied, ErrInternal,
	}
	if want := readVectors(t).Codes; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i, c := range got {
		err := wrap("/x", &Error{Code: c, Text: "words"})
		for k, other := range got {
			if errors.Is(err, other) != (i == k) {
				t.Errorf("errors.Is(%v, %v) is wrong", err, other)
			}
		}
		var e *Error
		if !errors.As(err, &e) || e.Path != "/x" || e.Text != "words" || !strings.Contains(err.Error(), "/x") ||
			!strings.Contains(err.Error(), "words") {
			t.Errorf("%v does not tell path and text", err)
		}
	}
}

func TestReplyVectors(t *testing.T) {
	v := readVectors(t)
	good, refused, bad := 0, 0, 0
	for _, r := range append(v.Replies, v.Decode...) {
		t.Run(r.Name, func(t *testing.T) {
			got, err := decodeReply([]byte(pad(r.Line, r.Pad)))
			var e *Error
			switch {
			case r.Bad:
				bad++
				if !errors.Is(err, errReply) || errors.As(err, &e) {
					t.Errorf("error %v, want %v", err, errReply)
				}
			case r.Reply.Error != nil:
				refused++
				if !errors.As(err, &e) || e.Code != r.Reply.Error.Code || e.Text != r.Reply.Error.Text {
					t.Errorf("error %v, want %v", err, r.Reply.Error)
				}
			default:
				good++
				check(t, err)
				sameReply(t, &got, &r.Reply)
			}
		})
	}
	if good < 3 || refused < 10 || bad < 8 {
		t.Errorf("%d good, %d refused and %d bad replies: some are missing", good, refused, bad)
	}
}

// sameReply compares a decoded reply with what is in its line.
func sameReply(t *testing.T, got *Info, want *reply) {
	t.Helper()
	same := want.Info
	same.MAC, same.Subnet, same.JSON = got.MAC, got.Subnet, got.JSON
	if !reflect.DeepEqual(*got, same) || got.MAC.String() != want.Address {
		t.Errorf("%+v, want %+v", *got, *want)
	}
	if got.Subnet.IsValid() != (want.Mask != "") {
		t.Errorf("subnet %v of the mask %q", got.Subnet, want.Mask)
	}
	if strings.HasSuffix(string(got.JSON), "\n") || !strings.Contains(string(got.JSON), `"version":1`) {
		t.Errorf("JSON %q", got.JSON)
	}
}

// TestReplyValues has replies whose JSON is right and whose values are not.
func TestReplyValues(t *testing.T) {
	for name, bad := range map[string]string{
		"hardware address": `"vmnet_mac_address":"52:54"`,
		"gateway":          `"gateway":"192.168.105"`,
		"start":            `"vmnet_start_address":"x"`,
		"end":              `"vmnet_end_address":"x"`,
		"mask with a hole": `"vmnet_start_address":"192.168.105.1","vmnet_subnet_mask":"255.0.255.0"`,
		"mask of words":    `"vmnet_start_address":"192.168.105.1","vmnet_subnet_mask":"x"`,
		"mask of IPv6":     `"vmnet_start_address":"192.168.105.1","vmnet_subnet_mask":"ffff::"`,
		"MTU as text":      `"vmnet_mtu":"1500"`,
	} {
		if _, err := decodeReply([]byte(`{"version":1,` + bad + "}\n")); !errors.Is(err, errReply) {
			t.Errorf("%s: error %v, want %v", name, err, errReply)
		}
	}
	got, err := decodeReply([]byte(goodReply))
	check(t, err)
	if want := netip.MustParsePrefix("192.168.105.1/24"); got.Subnet != want.Masked() {
		t.Errorf("subnet %v, want %v", got.Subnet, want.Masked())
	}
	if got.InterfaceID != "6ba7b810-9dad-41d1-80b4-00c04fd430c8" {
		t.Errorf("interface id %q is not in lower case", got.InterfaceID)
	}
}

func FuzzDecodeReply(f *testing.F) {
	v := readVectors(f)
	for _, r := range append(v.Replies, v.Decode...) {
		f.Add([]byte(r.Line))
	}
	f.Add([]byte(`{"version":1,"vmnet_start_address":"::1","vmnet_subnet_mask":"0.0.0.0"}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := decodeReply(line)
		if err != nil {
			var e *Error
			if errors.As(err, &e) == errors.Is(err, errReply) {
				t.Errorf("error %v is neither the daemon's nor the protocol's, or both", err)
			}
			if e != nil && e.Code == "" {
				t.Error("an error without a code")
			}
			return
		}
		if !json.Valid(got.JSON) || got.Transport == "" {
			t.Errorf("%+v", got)
		}
	})
}
