// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parseEntitlements reads a property list that is a dictionary of booleans, the only kind that is needed here.
func parseEntitlements(plist []byte) (map[string]bool, error) {
	dict := map[string]bool{}
	var key *string
	var path []string
	for d := xml.NewDecoder(bytes.NewReader(plist)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			if err := openElement(strings.Join(path, "/"), dict, &key); err != nil {
				return nil, err
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			switch text := string(t); {
			case len(path) > 0 && path[len(path)-1] == "key":
				*key += text
			case strings.TrimSpace(text) != "":
				return nil, fmt.Errorf("text %q outside a key", text)
			}
		}
	}
	if key != nil {
		return nil, fmt.Errorf("key %q has no value", *key)
	}
	if len(dict) == 0 {
		return nil, errors.New("not a property list with a dictionary, or an empty one")
	}
	return dict, nil
}

// openElement takes a key or a value into dict. Key is the one that has no value yet, nil for none.
func openElement(path string, dict map[string]bool, key **string) error {
	switch path {
	case "plist", "plist/dict":
	case "plist/dict/key":
		if *key != nil {
			return fmt.Errorf("key %q has no value", **key)
		}
		*key = new(string)
	case "plist/dict/true", "plist/dict/false":
		if *key == nil || **key == "" {
			return errors.New("a value without a key")
		}
		if _, twice := dict[**key]; twice {
			return fmt.Errorf("key %q occurs twice", **key)
		}
		dict[**key] = path == "plist/dict/true"
		*key = nil
	default:
		return fmt.Errorf("element %s: only a dictionary of booleans is supported", path)
	}
	return nil
}

// Tags of DER, with the bit for constructed values where it applies.
const (
	derBoolean    = 0x01
	derInteger    = 0x02
	derUTF8       = 0x0c
	derSequence   = 0x30
	derDictionary = 0xb0 // context-specific 16
	derPlist      = 0x70 // application 16
)

// encodeEntitlements gives the binary form of entitlements, which macOS 12 and newer read instead of the XML:
//
//	[APPLICATION 16] { INTEGER 1 (version), [16] { SEQUENCE { UTF8String key, BOOLEAN value } … } }
//
// The keys are sorted by their bytes.
func encodeEntitlements(dict map[string]bool) []byte {
	var entries []byte
	for _, key := range slices.Sorted(maps.Keys(dict)) {
		value := byte(0)
		if dict[key] {
			value = 0xff
		}
		entries = append(entries, der(derSequence, der(derUTF8, []byte(key)), der(derBoolean, []byte{value}))...)
	}
	return der(derPlist, der(derInteger, []byte{1}), der(derDictionary, entries))
}

// der gives one value: tag, length in the shortest form, contents.
func der(tag byte, contents ...[]byte) []byte {
	body := bytes.Join(contents, nil)
	out := []byte{tag}
	if n := len(body); n < 0x80 {
		out = append(out, byte(n))
	} else {
		var length []byte
		for ; n > 0; n >>= 8 {
			length = append([]byte{byte(n)}, length...)
		}
		out = append(append(out, 0x80|byte(len(length))), length...)
	}
	return append(out, body...)
}
