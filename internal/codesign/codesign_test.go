// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"strings"
	"testing"

	gomacho "github.com/blacktop/go-macho"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const identifier = "io.github.socket-vmnet2.test"

func options(t testing.TB) map[string]Options {
	return map[string]Options{
		"plain":        {Identifier: identifier},
		"entitlements": {Identifier: identifier, Entitlements: entitlements(t)},
	}
}

func TestSign(t *testing.T) {
	files := programs(t)
	files["small"] = small()
	for file, program := range files {
		for kind, o := range options(t) {
			t.Run(file+" "+kind, func(t *testing.T) {
				before := bytes.Clone(program)
				require.Error(t, Verify(program, o), "not signed by us")
				signed, err := Sign(program, o)
				require.NoError(t, err)
				assert.Equal(t, before, program, "the argument is not changed")
				require.NoError(t, Verify(signed, o))
				checkWithGoMacho(t, signed, o)
				checkUntouched(t, program, signed)

				again, err := Sign(signed, o)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(signed, again), "signing twice gives the same file")
				for other, o := range options(t) {
					if other == kind {
						continue
					}
					assert.Error(t, Verify(signed, o))
					changed, err := Sign(signed, o)
					require.NoError(t, err)
					fresh, err := Sign(program, o)
					require.NoError(t, err)
					assert.True(t, bytes.Equal(fresh, changed), "no trace of the signature before")
				}
			})
		}
	}
}

// checkWithGoMacho has a parser that is not ours look at the signature.
func checkWithGoMacho(t *testing.T, signed []byte, o Options) {
	t.Helper()
	f, err := gomacho.NewFile(bytes.NewReader(signed))
	require.NoError(t, err)
	defer f.Close()
	s := f.CodeSignature()
	require.NotNil(t, s)
	assert.Zero(t, s.Offset%16, "alignment")
	assert.Len(t, signed, int(s.Offset+s.Size), "the signature is last")
	linkedit := f.Segment("__LINKEDIT")
	assert.Len(t, signed, int(linkedit.Offset+linkedit.Filesz), "__LINKEDIT covers the signature")
	assert.Empty(t, s.Errors)
	require.Len(t, s.CodeDirectories, 1)
	cd := s.CodeDirectories[0]
	assert.Equal(t, o.Identifier, cd.ID)
	assert.Equal(t, "adhoc", cd.Header.Flags.String())
	assert.Equal(t, string(o.Entitlements), s.Entitlements)
	assert.Equal(t, len(o.Entitlements) > 0, len(s.EntitlementsDER) > 0)
	assert.Empty(t, s.CMSSignature)
	assert.Empty(t, cd.TeamID)
	require.Len(t, cd.CodeSlots, (int(s.Offset)+4095)/4096)
	for _, slot := range cd.CodeSlots {
		sum := sha256.Sum256(signed[slot.Page:min(slot.Page+4096, s.Offset)])
		assert.Equal(t, sum[:], slot.Hash, "page at %#x", slot.Page)
	}
}

// checkUntouched wants nothing changed but the sizes in the load commands and what is behind the old end.
func checkUntouched(t *testing.T, program, signed []byte) {
	t.Helper()
	was, err := macho.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	is, err := macho.NewFile(bytes.NewReader(signed))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(is.Loads), len(was.Loads))
	for i, l := range was.Loads {
		if s, ok := l.(*macho.Segment); ok && s.Name == "__LINKEDIT" || was.ByteOrder.Uint32(l.Raw()) == cmdSignature {
			continue
		}
		assert.Equal(t, l.Raw(), is.Loads[i].Raw(), "load command %d", i)
	}
	assert.LessOrEqual(t, len(is.Loads), len(was.Loads)+1)
	first, end := int(is.Cmdsz)+headerSize, len(program)
	if m, err := parse(program); assert.NoError(t, err) && m.signature != 0 {
		end = int(m.u32(m.signature + 8))
	}
	assert.True(t, bytes.Equal(program[first:end], signed[first:end]), "code and data")
}

// TestVerifyCatchesEveryByte damages each byte of a signed file in several ways.
func TestVerifyCatchesEveryByte(t *testing.T) {
	for kind, o := range options(t) {
		t.Run(kind, func(t *testing.T) {
			signed, err := Sign(small(), o)
			require.NoError(t, err)
			require.NoError(t, Verify(signed, o))
			for i := range signed {
				for _, bits := range []byte{0x01, 0x80, 0xff} {
					signed[i] ^= bits
					if Verify(signed, o) == nil {
						t.Errorf("byte %#x of %#x, changed by %#x, goes unnoticed", i, len(signed), bits)
					}
					signed[i] ^= bits
				}
			}
		})
	}
}

func TestVerifyCatches(t *testing.T) {
	o := options(t)["entitlements"]
	signed, err := Sign(small(), o)
	require.NoError(t, err)
	start := int(binary.LittleEndian.Uint32(signed[smallSpare+8:]))
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	tests := []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"magic", flip(0), "read Mach-O file"},
		{"flags in the header", flip(24), "hash of page 0"},
		{"segment's protection", flip(smallText + 56), "hash of page 0"},
		{"room behind the load commands", flip(smallSpare + 16), "hash of page 0"},
		{"code", flip(0x1000), "hash of page 1"},
		{"symbols", flip(0x2000), "hash of page 2"},
		{"padding in front of the signature", flip(start - 1), "hash of page 2"},
		{"superblob", flip(start), "signature: magic"},
		{"index", flip(start + 12), "blob 0 is for slot"},
		{"flags of the directory", flip(start + 52 + 15), "flags is 0x3"},
		{"identifier", flip(start + 52 + 96), "identifier"},
		{"unused slot", flip(start + 52 + 96 + len(identifier) + 1 + 32), "hash of slot 6"},
		{"entitlements", flip(start + bytes.Index(signed[start:], []byte("<plist"))), "blob 2 holds"},
		{"binary entitlements", flip(start + bytes.LastIndex(signed[start:], []byte("com.apple"))), "blob 3 holds"},
		{"last byte", flip(len(signed) - 1), "want less than 16 zeros"},
		{"a byte more", func(b []byte) []byte { return append(b, 0) }, "up to the end of the file"},
		{"a byte less", func(b []byte) []byte { return b[:len(b)-1] }, "up to the end of the file"},
		{"no signature", func([]byte) []byte { return small() }, "not signed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.ErrorContains(t, Verify(tt.damage(bytes.Clone(signed)), o), tt.want)
		})
	}
	assert.ErrorContains(t, Verify(signed, Options{Identifier: identifier + "x", Entitlements: o.Entitlements}), "hash offset")
	assert.ErrorContains(t, Verify(signed, Options{Identifier: strings.ToUpper(identifier), Entitlements: o.Entitlements}), "identifier")
	assert.ErrorContains(t, Verify(signed, Options{Identifier: identifier}), "signature: magic")
	assert.ErrorContains(t, Verify(signed, Options{}), "no identifier")
}

func TestSignRefuses(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	text := func(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }
	signed, err := Sign(small(), Options{Identifier: identifier})
	require.NoError(t, err)
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"empty", text(""), "not a Mach-O file: it has only 0 bytes"},
		{"ELF", text("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 64)), "not a Mach-O file: it begins with 7f454c46"},
		{"script", text("#!/bin/sh\n"), "not a Mach-O file"},
		{"universal", text("\xca\xfe\xba\xbe\x00\x00\x00\x02"), "sign each architecture by itself"},
		{"universal 64", text("\xca\xfe\xba\xbf\x00\x00\x00\x02"), "sign each architecture by itself"},
		{"32 bits", text("\xce\xfa\xed\xfe"), "only arm64 and x86_64"},
		{"big endian", text("\xfe\xed\xfa\xcf"), "only arm64 and x86_64"},
		{"header cut off", func(b []byte) []byte { return b[:31] }, "truncated: the header has 31 bytes"},
		{"commands cut off", func(b []byte) []byte { return b[:200] }, "truncated: the load commands end at byte 328"},
		{"symbols cut off", func(b []byte) []byte { return b[:len(b)-1] }, "truncated?"},
		{"bytes appended", func(b []byte) []byte { return append(b, 1) }, "__LINKEDIT is not last"},
		{"other CPU", put32(4, 7), "CPU type 0x7"},
		{"library", put32(12, 6), "type 6, want an executable"},
		{"too many commands", put32(ncmdsAt, 4), "load command 3 of 4 begins at byte 328, where the commands end"},
		{"too few commands", put32(ncmdsAt, 2), "the load commands end at byte 256, the header says 328"},
		{"a number of commands that overflows", put32(ncmdsAt, 1<<32-1), "where the commands end"},
		{"command of no size", put32(smallText+4, 0), "has 0 bytes, want a multiple of 8"},
		{"command too long", put32(smallText+4, 1<<31), "want a multiple of 8 up to 224"},
		{"command of an odd size", put32(smallText+4, 73), "has 73 bytes"},
		{"segment too short", func(b []byte) []byte {
			return put32(smallSpare-8, 1)(put32(cmdsSizeAt, smallSpare-headerSize)(put32(smallLinkedit+4, 64)(b)))
		}, "LC_SEGMENT_64 has 64 bytes"},
		{"more sections than fit", put32(smallText+nsectsAt, 1<<30), "LC_SEGMENT_64 with 1073741824 sections"},
		{"32-bit segment", put32(headerSize, cmdSegment32), "32-bit files"},
		{"second __TEXT", func(b []byte) []byte { copy(b[headerSize+8:], "__TEXT\x00"); return b }, "a second segment __TEXT"},
		{"no __TEXT", func(b []byte) []byte { b[smallText+8] = 'x'; return b }, "no segment __TEXT"},
		{"no __LINKEDIT", func(b []byte) []byte { b[smallLinkedit+8] = 'x'; return b }, "no segment __LINKEDIT"},
		{"segment behind the end", put32(smallText+fileSizeAt, 1<<30), "segment __TEXT holds 1073741824 bytes"},
		{"segment that overflows", func(b []byte) []byte {
			return put32(smallText+fileOffAt+4, 1<<31)(put32(smallText+fileSizeAt+4, 1<<31)(b))
		}, "truncated?"},
		{"__TEXT elsewhere", put32(smallText+fileOffAt, 1), "which does not cover the load commands"},
		{"__LINKEDIT in the middle", put32(smallText+fileSizeAt, 0x2001), "__LINKEDIT is not last"},
		{"section in the load commands", put32(smallText+segmentSize+sectionOffsetAt, 320), "inside the load commands"},
		{"no room", put32(smallText+segmentSize+sectionOffsetAt, smallSpare+8), "no room for LC_CODE_SIGNATURE: the load commands end at byte 328, the first section begins at byte 336"},
		{"room in use", put32(smallSpare+12, 1), "byte 340 behind the load commands is in use"},
		{"signature in the middle", func([]byte) []byte { return put32(smallSpare+8, smallData)(bytes.Clone(signed)) }, "want the end of __LINKEDIT"},
		{"signature too long", func([]byte) []byte { return put32(smallSpare+12, 1<<31)(bytes.Clone(signed)) }, "want the end of __LINKEDIT"},
		{"signature command too long", func([]byte) []byte {
			return put32(smallSpare+4, 24)(put32(cmdsSizeAt, smallSpare+24-headerSize)(bytes.Clone(signed)))
		}, "LC_CODE_SIGNATURE has 24 bytes"},
		{"two signatures", func([]byte) []byte {
			b := bytes.Clone(signed)
			copy(b[smallSpare+16:], b[smallSpare:smallSpare+16])
			return put32(ncmdsAt, 5)(put32(cmdsSizeAt, smallSpare+32-headerSize)(b))
		}, "a second LC_CODE_SIGNATURE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Sign(tt.change(small()), Options{Identifier: identifier})
			assert.ErrorContains(t, err, tt.want)
		})
	}
	for want, o := range map[string]Options{
		"no identifier":     {},
		"zero byte":         {Identifier: "a\x00b"},
		"read entitlements": {Identifier: "a", Entitlements: []byte("x")},
	} {
		_, err := Sign(small(), o)
		assert.ErrorContains(t, err, want)
	}
}

// FuzzSign looks for files that crash the parser, or that are signed wrongly.
func FuzzSign(f *testing.F) {
	o := Options{Identifier: identifier, Entitlements: entitlements(f)}
	signed, err := Sign(small(), o)
	require.NoError(f, err)
	f.Add(small())
	f.Add(signed)
	f.Add(small()[:smallSpare])
	f.Add([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_ = Verify(file, o)
		once, err := Sign(file, o)
		if err != nil {
			return
		}
		twice, err := Sign(once, o)
		require.NoError(t, err)
		require.True(t, bytes.Equal(once, twice), "signing twice gives the same file")
		err = Verify(once, o)
		if err != nil && !strings.Contains(err.Error(), "read Mach-O file") && !strings.Contains(err.Error(), "is behind __LINKEDIT") {
			t.Errorf("not what it should be after signing: %v", err)
		}
	})
}
