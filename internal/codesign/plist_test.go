// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entitlements is what the daemon is signed with.
func entitlements(t testing.TB) []byte {
	t.Helper()
	plist, err := os.ReadFile("../../etc/entitlements.plist")
	require.NoError(t, err)
	return plist
}

func TestDaemonEntitlements(t *testing.T) {
	dict, err := parseEntitlements(entitlements(t))
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"com.apple.security.virtualization": true}, dict)

	// apple-codesign 0.29.0 gave the same blob for this file.
	assert.Equal(t, "\x70\x2d"+ // application 16, 45 bytes
		"\x02\x01\x01"+ // version 1
		"\xb0\x28"+ // dictionary, 40 bytes
		"\x30\x26"+ // entry, 38 bytes
		"\x0c\x21com.apple.security.virtualization"+ // 33 bytes of UTF-8
		"\x01\x01\xff", // true
		string(encodeEntitlements(dict)))
}

func TestEncodeEntitlements(t *testing.T) {
	long := strings.Repeat("k", 200)
	tests := []struct {
		name string
		dict map[string]bool
		want string
	}{
		{"empty", nil, "\x70\x05\x02\x01\x01\xb0\x00"},
		{"false", map[string]bool{"key": false}, "\x70\x0f\x02\x01\x01\xb0\x0a\x30\x08\x0c\x03key\x01\x01\x00"},
		{"true", map[string]bool{"key": true}, "\x70\x0f\x02\x01\x01\xb0\x0a\x30\x08\x0c\x03key\x01\x01\xff"},
		{"sorted", map[string]bool{"b": true, "a": false, "B": true}, "\x70\x1d\x02\x01\x01\xb0\x18" +
			"\x30\x06\x0c\x01B\x01\x01\xff" + "\x30\x06\x0c\x01a\x01\x01\x00" + "\x30\x06\x0c\x01b\x01\x01\xff"},
		{"length of one byte more", map[string]bool{long: true}, "\x70\x81\xd7\x02\x01\x01\xb0\x81\xd1\x30\x81\xce\x0c\x81\xc8" + long + "\x01\x01\xff"},
		{"length of two bytes more", map[string]bool{long: true, long + "l": true}, "\x70\x82\x01\xaa\x02\x01\x01\xb0\x82\x01\xa3" +
			"\x30\x81\xce\x0c\x81\xc8" + long + "\x01\x01\xff" + "\x30\x81\xcf\x0c\x81\xc9" + long + "l\x01\x01\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, string(encodeEntitlements(tt.dict)))
		})
	}
}

func TestParseEntitlements(t *testing.T) {
	tests := []struct {
		name, dict string
		want       map[string]bool
		err        string
	}{
		{"two", "<key>a</key><true/><key>b</key>\n<false/>", map[string]bool{"a": true, "b": false}, ""},
		{"escaped", "<key>a&amp;b</key><true/>", map[string]bool{"a&b": true}, ""},
		{"comment", "<!-- why --><key>a</key><true></true>", map[string]bool{"a": true}, ""},
		{"empty", "", nil, "empty"},
		{"no value", "<key>a</key>", nil, `key "a" has no value`},
		{"two keys", "<key>a</key><key>b</key><true/>", nil, `key "a" has no value`},
		{"no key", "<true/>", nil, "a value without a key"},
		{"empty key", "<key/><true/>", nil, "a value without a key"},
		{"twice", "<key>a</key><true/><key>a</key><false/>", nil, `key "a" occurs twice`},
		{"string", "<key>a</key><string>x</string>", nil, "element plist/dict/string"},
		{"array", "<key>a</key><array><true/></array>", nil, "element plist/dict/array"},
		{"text", "<key>a</key>yes", nil, `text "yes" outside a key`},
		{"cut off", "<key>a</key><true/", nil, "XML syntax error"},
		{"not closed", "<key>a</key><true>", nil, "XML syntax error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseEntitlements([]byte(`<?xml version="1.0"?><plist version="1.0"><dict>` + tt.dict + "</dict></plist>"))
			assert.Equal(t, tt.want, got)
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
	_, err := parseEntitlements([]byte("bplist00"))
	assert.ErrorContains(t, err, "bplist00")
	_, err = parseEntitlements(nil)
	assert.ErrorContains(t, err, "not a property list")
}
