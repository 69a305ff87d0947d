// SPDX-License-Identifier: Apache-2.0

// Package codesign reads the signatures of programs for macOS, on any operating system. tools/release makes them.
//
// A signature lies at the end of the file, where the load command LC_CODE_SIGNATURE points. Everything in it is big endian:
//
//	superblob ( code directory, requirements, [entitlements as XML, entitlements as DER], CMS )
//
// The code directory holds a hash of each page in front of the signature and, in special slots, of each of the other blobs.
package codesign

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
)

// A Signature is what a program says of who signed it and what it may do.
type Signature struct {
	Identifier   string
	AdHoc        bool   // without a certificate
	Entitlements []byte // a property list; nil for none
	Damaged      string // how the program differs from what was signed; empty: it does not, as far as can be told here
}

// Entitlement is what macOS 26 asks for where the user that starts vmnet is not root.
const Entitlement = "com.apple.security.virtualization"

var entitled = regexp.MustCompile(`<key>` + regexp.QuoteMeta(Entitlement) + `</key>\s*<true\s*/>`)

// Entitled tells whether a program has Entitlement.
func (s *Signature) Entitled() bool { return entitled.Match(s.Entitlements) }

// Values of <mach-o/loader.h> and <kern/cs_blobs.h>.
const (
	loadSignature  = 0x1d // LC_CODE_SIGNATURE
	magicSuperblob = 0xfade0cc0
	magicDirectory = 0xfade0c02

	slotDirectory    = 0
	slotEntitlements = 5

	flagAdhoc  = 2
	hashSHA256 = 2
)

// header is what each blob begins with.
const header = 8

// A directory is the beginning of a code directory. Offsets count from there.
type directory struct {
	Magic, Length, Version, Flags         uint32
	Hashes, Identifier                    uint32 // offsets of the first page's hash, and of a text that ends with a zero
	Special, Pages, Limit                 uint32 // numbers of hashes in front of Hashes and from there on; bytes in pages
	HashSize, HashType, Platform, PageLog uint8
}

// Read reads the signature of a program for one architecture. It proves nothing about the signer: it tells what the signature
// says, and whether the program is what was signed.
func Read(program []byte) (Signature, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return Signature{}, fmt.Errorf("read Mach-O file: %w", err)
	}
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) != 16 || f.ByteOrder.Uint32(raw) != loadSignature {
			continue
		}
		start := uint64(f.ByteOrder.Uint32(raw[8:]))
		end := start + uint64(f.ByteOrder.Uint32(raw[12:]))
		if end > uint64(len(program)) {
			return Signature{}, errors.New("the signature is cut off")
		}
		return read(program[:start], program[start:end])
	}
	return Signature{}, errors.New("not signed")
}

// read reads the signature of code.
func read(code, signature []byte) (s Signature, err error) {
	blobs, err := split(signature)
	if err != nil {
		return s, fmt.Errorf("signature: %w", err)
	}
	b := blobs[slotDirectory]
	var d directory
	if _, err := binary.Decode(b, binary.BigEndian, &d); err != nil || d.Magic != magicDirectory {
		return s, errors.New("signature without a code directory")
	}
	name, _, ok := bytes.Cut(b[min(int64(d.Identifier), int64(len(b))):], []byte{0})
	if !ok || len(name) == 0 {
		return s, errors.New("code directory: has no identifier")
	}
	s.Identifier, s.AdHoc = string(name), d.Flags&flagAdhoc != 0
	if e := blobs[slotEntitlements]; e != nil {
		s.Entitlements = e[header:]
	}
	s.Damaged, err = d.compare(b, blobs, code)
	return s, err
}

// split takes a superblob apart, by slot.
func split(signature []byte) (map[uint32][]byte, error) {
	const most = 64 // a signature has a dozen blobs, with every kind of them
	var top struct{ Magic, Length, Count uint32 }
	if _, err := binary.Decode(signature, binary.BigEndian, &top); err != nil || top.Magic != magicSuperblob || top.Count > most || int(12+8*top.Count) > len(signature) {
		return nil, fmt.Errorf("magic %#x, %d blobs in %d bytes", top.Magic, top.Count, len(signature))
	}
	blobs := map[uint32][]byte{}
	for i := range top.Count {
		var at struct{ Slot, Offset uint32 }
		if _, err := binary.Decode(signature[12+8*i:], binary.BigEndian, &at); err != nil || int64(at.Offset)+header > int64(len(signature)) {
			return nil, fmt.Errorf("blob %d is outside", i)
		}
		blob := signature[at.Offset:]
		length := binary.BigEndian.Uint32(blob[4:])
		if length < header || int64(length) > int64(len(blob)) {
			return nil, fmt.Errorf("the blob for slot %d is outside", at.Slot)
		}
		blobs[at.Slot] = blob[:length]
	}
	return blobs, nil
}

// compare tells what differs from its hash, if the hashes are SHA-256. b is the code directory.
func (d directory) compare(b []byte, blobs map[uint32][]byte, code []byte) (damaged string, err error) {
	if d.HashType != hashSHA256 || d.HashSize != sha256.Size || d.PageLog < 9 || d.PageLog > 20 {
		return "", nil
	}
	if int64(d.Limit) > int64(len(code)) {
		return "it is cut off", nil
	}
	first, last := int64(d.Hashes)-int64(d.Special)*sha256.Size, int64(d.Hashes)+int64(d.Pages)*sha256.Size
	if first < 0 || last > int64(len(b)) {
		return "", errors.New("code directory: has too few hashes")
	}
	differs := func(number int64, what []byte) bool {
		at := int64(d.Hashes) + number*sha256.Size
		sum := sha256.Sum256(what)
		return !bytes.Equal(sum[:], b[at:at+sha256.Size])
	}
	size := int64(1) << d.PageLog
	for page := range int64(d.Pages) {
		if begin := page * size; begin < int64(d.Limit) && differs(page, code[begin:min(begin+size, int64(d.Limit))]) {
			return fmt.Sprintf("from byte %d on", begin), nil
		}
	}
	for slot, blob := range blobs {
		if slot != slotDirectory && slot <= d.Special && differs(-int64(slot), blob) {
			return fmt.Sprintf("slot %d of its signature", slot), nil
		}
	}
	return "", nil
}
