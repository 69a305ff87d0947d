// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// A Mach-O file's signature is a super blob, big-endian throughout:
//
//	 0        4        8        12
//	+--------+--------+--------+------------------+------------------+ ...
//	| magic  | length | count  | type, offset     | type, offset     |
//	+--------+--------+--------+------------------+------------------+ ...
//
// and each blob begins with a magic number and its length, both of 4 bytes.
const (
	codeSignature     = 0x1d // LC_CODE_SIGNATURE
	superBlobMagic    = 0xfade0cc0
	entitlementsSlot  = 5
	entitlementsMagic = 0xfade7171
	mostSignature     = 16 << 20 // bytes
)

// virtualization is what macOS 26 asks for where the user is not root.
var virtualization = regexp.MustCompile(`<key>com\.apple\.security\.virtualization</key>\s*<true\s*/>`)

var errNoSignature = errors.New("no signature")

// Entitlement tells whether the program at path is signed with com.apple.security.virtualization, which lets macOS 26 start
// vmnet for users other than root.
func Entitlement(path string) string {
	entitlements, err := entitlementsOf(path)
	switch {
	case errors.Is(err, errNoSignature):
		return "no: the program is not signed"
	case err != nil:
		return "not known: " + err.Error()
	case virtualization.Match(entitlements):
		return "yes: com.apple.security.virtualization"
	}
	return "no: signed without com.apple.security.virtualization"
}

// entitlementsOf is the property list in a signature, empty when it has none.
func entitlementsOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := macho.NewFile(f)
	if err != nil {
		return nil, err
	}
	for _, l := range m.Loads {
		raw := l.Raw()
		if len(raw) < 16 || m.ByteOrder.Uint32(raw) != codeSignature {
			continue
		}
		offset, size := m.ByteOrder.Uint32(raw[8:]), m.ByteOrder.Uint32(raw[12:])
		if size > mostSignature {
			return nil, fmt.Errorf("a signature of %d bytes", size)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(io.NewSectionReader(f, int64(offset), int64(size)), b); err != nil {
			return nil, fmt.Errorf("read the signature: %w", err)
		}
		return entitlementsIn(b)
	}
	return nil, errNoSignature
}

// entitlementsIn is the property list in a super blob.
func entitlementsIn(b []byte) ([]byte, error) {
	if len(b) < 12 || binary.BigEndian.Uint32(b) != superBlobMagic {
		return nil, errors.New("the signature is in no known form")
	}
	index := b[12:]
	for n := binary.BigEndian.Uint32(b[8:]); n > 0 && len(index) >= 8; n, index = n-1, index[8:] {
		at := binary.BigEndian.Uint32(index[4:])
		if binary.BigEndian.Uint32(index) != entitlementsSlot || uint64(at)+8 > uint64(len(b)) {
			continue
		}
		blob := b[at:]
		size := binary.BigEndian.Uint32(blob[4:])
		if binary.BigEndian.Uint32(blob) != entitlementsMagic || size < 8 || uint64(size) > uint64(len(blob)) {
			return nil, errors.New("the signature's entitlements are damaged")
		}
		return blob[8:size], nil
	}
	return nil, nil
}
