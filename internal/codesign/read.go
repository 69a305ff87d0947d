// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"errors"
	"fmt"
)

// A Signature is what a program says of who signed it and what it may do.
type Signature struct {
	Identifier   string
	AdHoc        bool   // by nobody in particular
	Entitlements []byte // a property list; nil for none
	Damaged      string // how the program differs from what was signed; empty: it does not, as far as can be told here
}

// Read reads the signature of a program for one architecture, whoever signed it. It proves nothing about the signer: it tells
// what the signature says, and whether the program is what was signed.
func Read(program []byte) (Signature, error) {
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return Signature{}, fmt.Errorf("read Mach-O file: %w", err)
	}
	start, end, err := anySignature(f, uint64(len(program)))
	if err != nil {
		return Signature{}, err
	}
	blobs, err := anyBlobs(program[start:end])
	if err != nil {
		return Signature{}, fmt.Errorf("signature: %w", err)
	}
	var s Signature
	for _, b := range blobs {
		switch {
		case b.slot == slotDirectory && b.magic == magicDirectory:
			if err := s.readDirectory(b.contents, program[:start]); err != nil {
				return Signature{}, fmt.Errorf("code directory: %w", err)
			}
		case b.slot == slotXML && b.magic == magicXML:
			s.Entitlements = b.contents
		}
	}
	if s.Identifier == "" {
		return Signature{}, errors.New("signature without a code directory")
	}
	return s, nil
}

// anySignature finds where a signature is. Go's linker leaves one of any length.
func anySignature(f *macho.File, length uint64) (start, end uint64, err error) {
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) != 16 || f.ByteOrder.Uint32(raw) != cmdSignature {
			continue
		}
		start = uint64(f.ByteOrder.Uint32(raw[8:]))
		if end = start + uint64(f.ByteOrder.Uint32(raw[12:])); end > length {
			return 0, 0, errors.New("the signature is cut off")
		}
		return start, end, nil
	}
	return 0, 0, errors.New("not signed")
}

// maxBlobs is more than a signature has: a dozen, with every kind of it.
const maxBlobs = 64

// anyBlobs takes a superblob apart, whatever is in it.
func anyBlobs(sig []byte) ([]blob, error) {
	r := reader{data: sig}
	magic, length, count := r.u32(), r.u32(), r.u32()
	if r.failed || magic != magicSuperblob || uint64(length) > uint64(len(sig)) || count > maxBlobs {
		return nil, fmt.Errorf("magic %#x, length %d of %d, %d blobs", magic, length, len(sig), count)
	}
	var blobs []blob
	for range count {
		b := blob{slot: r.u32()}
		at := reader{data: sig[:length], at: int(min(r.u32(), length))}
		b.magic = at.u32()
		b.contents = at.bytes(int64(at.u32()) - 8)
		if r.failed || at.failed {
			return nil, fmt.Errorf("a blob for slot %d is outside", b.slot)
		}
		blobs = append(blobs, b)
	}
	return blobs, nil
}

// readDirectory reads a code directory (<kern/cs_blobs.h>) whose magic and length are taken off already, and compares the hashes
// of the pages if they are SHA-256.
func (s *Signature) readDirectory(contents, code []byte) error {
	r := reader{data: contents}
	_, flags, hashes, identifier := r.u32(), r.u32(), r.u32(), r.u32()
	_, pages, limit := r.u32(), r.u32(), r.u32()
	kind := r.bytes(4) // size of a hash, its type, platform, page size as a power of two
	const header = 8   // what is taken off
	if r.failed || identifier < header || int(identifier-header) >= len(contents) {
		return errors.New("is cut off")
	}
	name, _, ok := bytes.Cut(contents[identifier-header:], []byte{0})
	if !ok || len(name) == 0 {
		return errors.New("has no identifier")
	}
	s.Identifier, s.AdHoc = string(name), flags&flagAdhoc != 0
	if kind[1] != hashSHA256 || kind[0] != sha256.Size || kind[3] < 9 || kind[3] > 20 {
		return nil
	}
	if uint64(limit) > uint64(len(code)) {
		s.Damaged = "it is cut off"
		return nil
	}
	at := reader{data: contents, at: int(min(max(hashes, header)-header, uint32(len(contents))))}
	size := uint64(1) << kind[3]
	for page := range uint64(pages) {
		if page*size >= uint64(limit) {
			break
		}
		want := at.bytes(sha256.Size)
		if at.failed {
			return errors.New("has too few hashes")
		}
		if got := sha256.Sum256(code[page*size : min((page+1)*size, uint64(limit))]); !bytes.Equal(got[:], want) {
			s.Damaged = fmt.Sprintf("from byte %d on", page*size)
			return nil
		}
	}
	return nil
}
