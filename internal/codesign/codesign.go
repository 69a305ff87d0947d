// SPDX-License-Identifier: Apache-2.0

// Package codesign signs programs for macOS ad hoc, on any operating system, and checks such signatures.
//
// A signature lies at the end of the file, in the __LINKEDIT segment, where the load command LC_CODE_SIGNATURE points:
//
//	Mach-O header, load commands, code, data │ __LINKEDIT: symbols … │ pad │ signature │ zeros
//	└──────────── hashed in pages of 4 KiB, the load commands included ────┘
//
//	signature = superblob ( code directory, requirements (none), [entitlements as XML, entitlements as DER], CMS (empty) )
//
// Everything in it is big endian. The code directory holds the page hashes and, in special slots, a hash of each of the
// other blobs. An ad-hoc signature proves nothing about its author: arm64 Macs run no program without one, and macOS 26
// reads the entitlements from it.
package codesign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	machocs "github.com/blacktop/go-macho/pkg/codesign"
	cstypes "github.com/blacktop/go-macho/pkg/codesign/types"
)

// Options are what a signature says besides the hashes of the program.
type Options struct {
	// Identifier names the program, as in "io.github.owner.program". Mandatory.
	Identifier string

	// Entitlements is a property list in XML with a dictionary of booleans; it is embedded byte for byte. Empty for none.
	Entitlements []byte
}

// signatureAlign is the alignment of the signature in the file, in bytes, and that of its size: Apple's tools want both.
const signatureAlign = 16

// Sign returns a copy of program with an ad-hoc signature in place of the one it may have. Program is a 64-bit Mach-O
// executable for one architecture; it is not changed. The result depends on nothing but the arguments, and signing it
// again gives the same bytes.
func Sign(program []byte, o Options) ([]byte, error) {
	entitlements, err := o.check()
	if err != nil {
		return nil, err
	}
	img, err := parse(program)
	if err != nil {
		return nil, err
	}
	img, err = img.unsigned()
	if err != nil {
		return nil, err
	}
	// The load commands, which are hashed, hold the signature's size; the size does not depend on what is hashed.
	blob, err := img.superblob(o, entitlements)
	if err != nil {
		return nil, err
	}
	img.reserve(uint32(alignUp(uint64(len(blob)), signatureAlign)))
	if blob, err = img.superblob(o, entitlements); err != nil {
		return nil, err
	}
	signed := make([]byte, len(img.data)+int(img.signatureSize()))
	copy(signed[copy(signed, img.data):], blob)
	return signed, nil
}

// check validates the options and returns the entitlements as DER, nil if there are none.
func (o Options) check() ([]byte, error) {
	switch {
	case o.Identifier == "":
		return nil, errors.New("no identifier to sign with")
	case strings.ContainsRune(o.Identifier, 0):
		return nil, fmt.Errorf("identifier %q holds a zero byte, which ends it in the signature", o.Identifier)
	case len(o.Entitlements) == 0:
		return nil, nil
	}
	dict, err := parseEntitlements(o.Entitlements)
	if err != nil {
		return nil, fmt.Errorf("read entitlements: %w", err)
	}
	return encodeEntitlements(dict), nil
}

// superblob makes the signature of img as it is now.
func (m *image) superblob(o Options, der []byte) ([]byte, error) {
	config := &machocs.Config{
		ID:              o.Identifier,
		IsMain:          true,
		Flags:           cstypes.ADHOC,
		CodeSize:        uint64(len(m.data)),
		TextOffset:      m.text.fileOffset,
		TextSize:        m.text.fileSize,
		Entitlements:    o.Entitlements,
		EntitlementsDER: der,
	}
	config.InitSlotHashes()
	blob, err := machocs.Sign(bytes.NewReader(m.data), config)
	if err != nil {
		return nil, fmt.Errorf("make signature: %w", err)
	}
	// go-macho v1.1.296 counts 4 bytes per blob instead of 12 in all: right for three blobs, 8 too many for five.
	binary.BigEndian.PutUint32(blob[4:], uint32(len(blob)))
	return blob, nil
}

// alignUp rounds n up to a multiple of a power of two.
func alignUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }
