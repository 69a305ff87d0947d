// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/macho"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	machocs "github.com/blacktop/go-macho/pkg/codesign"
	cstypes "github.com/blacktop/go-macho/pkg/codesign/types"
	"howett.net/plist"
)

// signFiles signs programs in place, ad hoc. A program is replaced as a whole: macOS ends a process whose file was written to.
func signFiles(identifier, entitlements string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("no program to sign")
	}
	list, err := readEntitlements(entitlements)
	if err != nil {
		return err
	}
	for _, path := range programs {
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		signed, err := sign(program, identifier, list)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path+".signed", signed, 0o755); err != nil {
			return err
		}
		if err := os.Rename(path+".signed", path); err != nil {
			return err
		}
	}
	return nil
}

// readEntitlements reads a property list; there is none without a file.
func readEntitlements(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

// Sizes and places in <mach-o/loader.h>, in bytes.
const (
	headerSize    = 32 // of a 64-bit file; then the load commands follow
	ncmdsAt       = 16
	cmdsSizeAt    = 20
	vmSizeAt      = 32 // in LC_SEGMENT_64
	fileSizeAt    = 48
	signatureSize = 16 // of LC_CODE_SIGNATURE: cmd, cmdsize, dataoff, datasize
	// align is what Apple's tools want of the place and the size of a signature.
	align = 16
)

// An image is a program of Go's linker, with the places that signing changes.
type image struct {
	data      []byte // up to the signature
	cpu       macho.Cpu
	text      *macho.Segment
	linkedit  *macho.Segment // the last one
	segmentAt uint32         // where its load command is
	commandAt uint32         // and LC_CODE_SIGNATURE
}

// sign returns a copy of program with an ad-hoc signature in place of the one that it may have. Program is an executable for one
// architecture, as Go's linker leaves it. The result depends on nothing but the arguments, and signing it again gives the same.
func sign(program []byte, identifier string, entitlements []byte) ([]byte, error) {
	if identifier == "" || strings.ContainsRune(identifier, 0) {
		return nil, fmt.Errorf("%q cannot be the identifier of a signature", identifier)
	}
	der, err := encodeEntitlements(entitlements)
	if err != nil {
		return nil, fmt.Errorf("read entitlements: %w", err)
	}
	m, err := parse(program)
	if err != nil {
		return nil, err
	}
	// The load commands, which are hashed, hold the signature's size; the size does not depend on what is hashed.
	var blob []byte
	for range 2 {
		config := &machocs.Config{
			ID: identifier, IsMain: true, Flags: cstypes.ADHOC,
			CodeSize: uint64(len(m.data)), TextOffset: m.text.Offset, TextSize: m.text.Filesz,
			Entitlements: entitlements, EntitlementsDER: der,
		}
		config.InitSlotHashes()
		if blob, err = machocs.Sign(bytes.NewReader(m.data), config); err != nil {
			return nil, fmt.Errorf("make signature: %w", err)
		}
		// go-macho v1.1.296 counts 4 bytes per blob instead of 12 in all: right for three blobs, 8 too many for five.
		binary.BigEndian.PutUint32(blob[4:], uint32(len(blob)))
		m.reserve(alignUp(uint64(len(blob)), align))
	}
	return append(append(m.data, blob...), make([]byte, alignUp(uint64(len(blob)), align)-uint64(len(blob)))...), nil
}

// parse reads a program, and makes the copy that is signed: without its signature, and with a load command for one.
func parse(program []byte) (*image, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	m := &image{cpu: f.Cpu, text: f.Segment("__TEXT"), linkedit: f.Segment("__LINKEDIT")}
	if f.Type != macho.TypeExec || f.Cpu != macho.CpuAmd64 && f.Cpu != macho.CpuArm64 {
		return nil, fmt.Errorf("type %v for %v: want an executable for arm64 or x86_64", f.Type, f.Cpu)
	}
	length := uint64(len(program))
	if m.text == nil || m.linkedit == nil || length > math.MaxUint32/2 || m.linkedit.Offset > length || m.linkedit.Filesz != length-m.linkedit.Offset {
		return nil, errors.New("__TEXT is missing, or __LINKEDIT is not last: it is no program of Go's linker, or is truncated")
	}
	at, end := uint32(headerSize), length
	for _, l := range f.Loads {
		raw := l.Raw()
		if l == macho.Load(m.linkedit) {
			m.segmentAt = at
		}
		if macho.LoadCmd(f.ByteOrder.Uint32(raw)) == loadSignature && len(raw) == signatureSize {
			m.commandAt, end = at, uint64(f.ByteOrder.Uint32(raw[8:]))
		}
		at += uint32(len(raw))
	}
	if end < m.linkedit.Offset || end > length {
		return nil, errors.New("the signature is not in __LINKEDIT")
	}
	m.data = make([]byte, alignUp(end, align))
	copy(m.data, program[:end])
	if m.commandAt == 0 {
		return m, m.addCommand(f, at)
	}
	return m, nil
}

// addCommand appends an empty LC_CODE_SIGNATURE to the load commands, which end at a place where linkers leave room.
func (m *image) addCommand(f *macho.File, at uint32) error {
	for _, s := range f.Sections {
		if s.Offset != 0 && s.Offset < at+signatureSize {
			return fmt.Errorf("no room for LC_CODE_SIGNATURE: the load commands end at byte %d, section %s begins at byte %d", at, s.Name, s.Offset)
		}
	}
	le := binary.LittleEndian
	le.PutUint32(m.data[at:], uint32(loadSignature))
	le.PutUint32(m.data[at+4:], signatureSize)
	le.PutUint32(m.data[ncmdsAt:], f.Ncmd+1)
	le.PutUint32(m.data[cmdsSizeAt:], at+signatureSize-headerSize)
	m.commandAt = at
	return nil
}

// reserve makes the load commands say that size bytes of signature follow the image.
func (m *image) reserve(size uint64) {
	le := binary.LittleEndian
	le.PutUint32(m.data[m.commandAt+8:], uint32(len(m.data)))
	le.PutUint32(m.data[m.commandAt+12:], uint32(size))
	page := uint64(4 << 10)
	if m.cpu == macho.CpuArm64 {
		page = 16 << 10
	}
	inFile := uint64(len(m.data)) + size - m.linkedit.Offset
	le.PutUint64(m.data[m.segmentAt+fileSizeAt:], inFile)
	le.PutUint64(m.data[m.segmentAt+vmSizeAt:], alignUp(inFile, page))
}

// encodeEntitlements gives the binary form of a property list, a dictionary of booleans. macOS 12 and newer read that in place of
// the XML; the keys are sorted by their bytes:
//
//	[APPLICATION 16] { INTEGER 1 (version), [16] { SEQUENCE { UTF8String key, BOOLEAN value } … } }
func encodeEntitlements(list []byte) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var all map[string]bool
	if _, err := plist.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	type entry struct {
		Key   string `asn1:"utf8"`
		Value bool
	}
	form := struct {
		Version int
		Entries []entry `asn1:"tag:16"`
	}{Version: 1}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		form.Entries = append(form.Entries, entry{key, all[key]})
	}
	return asn1.MarshalWithParams(form, "application,tag:16")
}

// alignUp rounds n up to a multiple of a power of two.
func alignUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }
