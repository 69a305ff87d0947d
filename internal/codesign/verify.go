// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
)

// Values of <kern/cs_blobs.h>. What signs the file does not use them: this half is written from the format alone, and
// reads the load commands with another parser, so that a mistake is not made twice.
const (
	magicSuperblob    = 0xfade0cc0
	magicDirectory    = 0xfade0c02
	magicRequirements = 0xfade0c01
	magicXML          = 0xfade7171
	magicDER          = 0xfade7172
	magicCMS          = 0xfade0b01

	slotDirectory    = 0
	slotRequirements = 2
	slotXML          = 5
	slotDER          = 7
	slotCMS          = 0x10000

	flagAdhoc     = 2
	hashSHA256    = 2
	pageBits      = 12
	execMain      = 1
	directoryVers = 0x20500

	// A code directory of version 0x20500 has 96 bytes before its identifier.
	directorySize = 96
)

// Verify checks every byte of a program signed by Sign: the hash of each page and of each blob, that the signature says
// just what o says, and that nothing lies behind it. The error tells the first thing that is wrong.
func Verify(program []byte, o Options) error {
	der, err := o.check()
	if err != nil {
		return err
	}
	f, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("read Mach-O file: %w", err)
	}
	start, err := signatureStart(f, program)
	if err != nil {
		return err
	}
	want := []blob{
		{slotDirectory, magicDirectory, nil},
		{slotRequirements, magicRequirements, make([]byte, 4)}, // a count of 0
		{slotXML, magicXML, o.Entitlements},
		{slotDER, magicDER, der},
		{slotCMS, magicCMS, nil},
	}
	if len(o.Entitlements) == 0 {
		want = append(want[:2], want[4])
	}
	if err := splitSuperblob(program[start:], want); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	d := directory{blobs: want, code: program[:start], identifier: o.Identifier}
	if d.text = f.Segment("__TEXT"); d.text == nil {
		return errors.New("no segment __TEXT")
	}
	if err := d.verify(want[0].contents); err != nil {
		return fmt.Errorf("code directory: %w", err)
	}
	return nil
}

// signatureStart finds where the signature begins: in __LINKEDIT, which is last, and up to the end of the file.
func signatureStart(f *macho.File, program []byte) (uint64, error) {
	linkedit := f.Segment("__LINKEDIT")
	if linkedit == nil {
		return 0, errors.New("no segment __LINKEDIT")
	}
	var command []byte
	for _, l := range f.Loads {
		if s, ok := l.(*macho.Segment); ok && s != linkedit && (s.Offset+s.Filesz > linkedit.Offset || s.Addr+s.Memsz > linkedit.Addr) {
			return 0, fmt.Errorf("segment %s is behind __LINKEDIT", s.Name)
		}
		if raw := l.Raw(); f.ByteOrder.Uint32(raw) == cmdSignature {
			if command != nil {
				return 0, errors.New("two LC_CODE_SIGNATURE")
			}
			command = raw
		}
	}
	if len(command) != 16 {
		return 0, fmt.Errorf("not signed: LC_CODE_SIGNATURE has %d bytes, want 16", len(command))
	}
	start, size := uint64(f.ByteOrder.Uint32(command[8:])), uint64(f.ByteOrder.Uint32(command[12:]))
	end := uint64(len(program))
	if linkedit.Offset > end || linkedit.Filesz != end-linkedit.Offset || linkedit.Memsz < linkedit.Filesz {
		return 0, fmt.Errorf("segment __LINKEDIT holds %d bytes from byte %d on (%d in memory), want up to the end of the file at %d",
			linkedit.Filesz, linkedit.Offset, linkedit.Memsz, end)
	}
	if start < linkedit.Offset || start > end || size != end-start || start%16 != 0 || size%16 != 0 {
		return 0, fmt.Errorf("the signature holds %d bytes from byte %d on, want multiples of 16 up to the end of the file at %d", size, start, end)
	}
	return start, nil
}

// A blob is one part of the signature.
type blob struct {
	slot, magic uint32
	contents    []byte // without the header of magic and length
}

// hash is what the code directory says of the blob: header and contents.
func (b blob) hash() [sha256.Size]byte {
	h := binary.BigEndian.AppendUint32(nil, b.magic)
	h = binary.BigEndian.AppendUint32(h, uint32(8+len(b.contents)))
	return sha256.Sum256(append(h, b.contents...))
}

// splitSuperblob checks that sig holds the wanted blobs in order, without gaps, and zeros behind them. The first one's
// contents may be anything and are filled in.
func splitSuperblob(sig []byte, want []blob) error {
	r := reader{data: sig}
	at := uint32(12 + 8*len(want))
	magic, length, count := r.u32(), r.u32(), r.u32()
	if r.failed || magic != magicSuperblob || length > uint32(len(sig)) || count != uint32(len(want)) {
		return fmt.Errorf("magic %#x, length %d, %d blobs; want %#x, up to %d, %d", magic, length, count, uint32(magicSuperblob), len(sig), len(want))
	}
	for i := range want {
		if slot, offset := r.u32(), r.u32(); slot != want[i].slot || offset != at {
			return fmt.Errorf("blob %d is for slot %d and begins at byte %d, want slot %d at byte %d", i, slot, offset, want[i].slot, at)
		}
		b := reader{data: sig, at: int(at)}
		magic, size := b.u32(), b.u32()
		contents := b.bytes(int64(size) - 8)
		if b.failed || magic != want[i].magic {
			return fmt.Errorf("blob %d has magic %#x and %d bytes, want magic %#x", i, magic, size, want[i].magic)
		}
		if i > 0 && !bytes.Equal(contents, want[i].contents) {
			return fmt.Errorf("blob %d holds %q, want %q", i, contents, want[i].contents)
		}
		want[i].contents = contents
		at += size
	}
	if at != length {
		return fmt.Errorf("the blobs end at byte %d, the superblob at %d", at, length)
	}
	if rest := sig[length:]; len(rest) >= signatureAlign || !bytes.Equal(rest, make([]byte, len(rest))) {
		return fmt.Errorf("%d bytes behind it, want less than %d zeros", len(rest), signatureAlign)
	}
	return nil
}

// A directory is what a code directory must say.
type directory struct {
	blobs      []blob // the first is the directory itself
	code       []byte // what the pages are taken from
	identifier string
	text       *macho.Segment
}

// verify compares the directory with the program.
func (d directory) verify(contents []byte) error {
	r := reader{data: contents}
	if err := d.verifyFields(&r); err != nil {
		return err
	}
	if id := string(r.bytes(int64(len(d.identifier) + 1))); id != d.identifier+"\x00" {
		return fmt.Errorf("identifier %q, want %q and a zero byte", id, d.identifier)
	}
	for slot := d.special(); slot > 0; slot-- {
		var want [sha256.Size]byte // zeros for a slot that is not in use
		for _, b := range d.blobs {
			if b.slot == uint32(slot) {
				want = b.hash()
			}
		}
		if got := r.bytes(sha256.Size); !bytes.Equal(got, want[:]) {
			return fmt.Errorf("hash of slot %d is %x, want %x", slot, got, want)
		}
	}
	for page := range d.pages() {
		want := sha256.Sum256(d.code[page<<pageBits : min((page+1)<<pageBits, len(d.code))])
		if got := r.bytes(sha256.Size); !bytes.Equal(got, want[:]) {
			return fmt.Errorf("hash of page %d (byte %d on) is %x, want %x", page, page<<pageBits, got, want)
		}
	}
	if r.failed || r.at != len(contents) {
		return fmt.Errorf("%d bytes, want %d", len(contents), r.at)
	}
	return nil
}

// special is the number of special slots: as many as the last one in use needs, the CMS blob not counted.
func (d directory) special() int { return int(d.blobs[len(d.blobs)-2].slot) }

func (d directory) pages() int { return (len(d.code) + 1<<pageBits - 1) >> pageBits }

// verifyFields compares the fixed part, which magic and length precede.
func (d directory) verifyFields(r *reader) error {
	hashes := directorySize + len(d.identifier) + 1 + d.special()*sha256.Size
	for _, field := range []struct {
		name      string
		got, want uint64
	}{
		{"version", uint64(r.u32()), directoryVers},
		{"flags", uint64(r.u32()), flagAdhoc},
		{"hash offset", uint64(r.u32()), uint64(hashes)},
		{"identifier offset", uint64(r.u32()), directorySize},
		{"number of special slots", uint64(r.u32()), uint64(d.special())},
		{"number of pages", uint64(r.u32()), uint64(d.pages())},
		{"code limit", uint64(r.u32()), uint64(len(d.code))},
		{"hash size, hash type, platform, page size", uint64(r.u32()), sha256.Size<<24 | hashSHA256<<16 | pageBits},
		{"spare", uint64(r.u32()), 0},
		{"scatter offset", uint64(r.u32()), 0},
		{"team offset", uint64(r.u32()), 0},
		{"spare", uint64(r.u32()), 0},
		{"64-bit code limit", r.u64(), 0},
		{"start of the executable segment", r.u64(), d.text.Offset},
		{"size of the executable segment", r.u64(), d.text.Filesz},
		{"flags of the executable segment", r.u64(), execMain},
		{"hardened runtime version", uint64(r.u32()), 0},
		{"pre-encryption hashes", uint64(r.u32()), 0},
	} {
		if field.got != field.want {
			return fmt.Errorf("%s is %#x, want %#x", field.name, field.got, field.want)
		}
	}
	return nil
}

// A reader takes big-endian values off data; past the end it gives zeros and fails.
type reader struct {
	data   []byte
	at     int
	failed bool
}

func (r *reader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.data)-r.at) {
		r.failed = true
		return nil
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}
