// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gomacho "github.com/blacktop/go-macho"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const identifier = "io.github.socket-vmnet2.test"

// linkedOnce are the programs of linked so far, by architecture.
var linkedOnce = map[string][]byte{}

// linked is a real program, as Go's linker leaves it: signed by the linker on arm64 only. Each is linked once; nothing may change it.
func linked(t testing.TB, goarch string) []byte {
	t.Helper()
	if linkedOnce[goarch] == nil {
		file := filepath.Join(t.TempDir(), "program")
		c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/socket_vmnet_client")
		c.Dir = root
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+goarch)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		linkedOnce[goarch], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	return linkedOnce[goarch]
}

func entitlements(t testing.TB) []byte {
	t.Helper()
	list, err := os.ReadFile(root + "/etc/entitlements.plist")
	require.NoError(t, err)
	return list
}

func TestSign(t *testing.T) {
	for _, goarch := range []string{"arm64", "amd64"} {
		program := linked(t, goarch)
		for name, list := range map[string][]byte{"plain": nil, "entitled": entitlements(t)} {
			t.Run(goarch+" "+name, func(t *testing.T) {
				before := bytes.Clone(program)
				signed, err := sign(program, identifier, list)
				require.NoError(t, err)
				assert.Equal(t, before, program, "the argument is not changed")
				checkWithGoMacho(t, signed, list)
				checkUntouched(t, program, signed)

				again, err := sign(signed, identifier, list)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(signed, again), "signing twice gives the same file")
				other, err := sign(signed, "x", []byte("<plist><dict><key>k</key><false/></dict></plist>"))
				require.NoError(t, err)
				again, err = sign(other, identifier, list)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(signed, again), "no trace of the signature before")
			})
		}
	}
}

// checkWithGoMacho has another parser look at the signature.
func checkWithGoMacho(t *testing.T, signed, list []byte) {
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
	assert.Equal(t, identifier, cd.ID)
	assert.Equal(t, "adhoc", cd.Header.Flags.String())
	assert.Equal(t, string(list), s.Entitlements)
	assert.Equal(t, len(list) > 0, len(s.EntitlementsDER) > 0)
	assert.Empty(t, s.CMSSignature)
	require.Len(t, cd.CodeSlots, (int(s.Offset)+4095)/4096)
	for _, slot := range cd.CodeSlots {
		sum := sha256.Sum256(signed[slot.Page:min(slot.Page+4096, s.Offset)])
		assert.Equal(t, sum[:], slot.Hash, "page at %#x", slot.Page)
	}
}

// checkUntouched wants nothing changed but the sizes in two load commands and what is behind the old end.
func checkUntouched(t *testing.T, program, signed []byte) {
	t.Helper()
	was, err := macho.NewFile(bytes.NewReader(program))
	require.NoError(t, err)
	is, err := macho.NewFile(bytes.NewReader(signed))
	require.NoError(t, err)
	end := len(program)
	for i, l := range was.Loads {
		if s, ok := l.(*macho.Segment); ok && s.Name == "__LINKEDIT" {
			continue
		}
		if macho.LoadCmd(was.ByteOrder.Uint32(l.Raw())) == loadSignature {
			end = int(was.ByteOrder.Uint32(l.Raw()[8:]))
			continue
		}
		assert.Equal(t, l.Raw(), is.Loads[i].Raw(), "load command %d", i)
	}
	first := int(is.Cmdsz) + headerSize
	assert.True(t, bytes.Equal(program[first:end], signed[first:end]), "code and data")
}

func TestSignRefuses(t *testing.T) {
	program := linked(t, "amd64")
	change := func(do func(f *macho.File, b []byte)) []byte {
		b := bytes.Clone(program)
		f, err := macho.NewFile(bytes.NewReader(b))
		require.NoError(t, err)
		do(f, b)
		return b
	}
	for name, tt := range map[string]struct {
		program      []byte
		identifier   string
		entitlements string
		want         string
	}{
		"empty":         {nil, "x", "", "EOF"},
		"universal":     {[]byte("\xca\xfe\xba\xbe\x00\x00\x00\x02"), "x", "", "invalid magic number"},
		"cut off":       {program[:len(program)-1], "x", "", "EOF"},
		"bytes more":    {append(bytes.Clone(program), 1), "x", "", "__LINKEDIT is not last"},
		"library":       {change(func(_ *macho.File, b []byte) { b[12] = 6 }), "x", "", "want an executable"},
		"no identifier": {program, "", "", `"" cannot be the identifier`},
		"a string":      {program, "x", "<plist><dict><key>a</key><string>x</string></dict></plist>", "read entitlements"},
		"no room": {change(func(f *macho.File, b []byte) {
			at := headerSize + len(f.Loads[0].Raw()) + 72 + 48 // the offset of the first section, in the second segment
			binary.LittleEndian.PutUint32(b[at:], headerSize+f.Cmdsz+8)
		}), "x", "", "no room for LC_CODE_SIGNATURE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sign(tt.program, tt.identifier, []byte(tt.entitlements))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// TestEncodeEntitlements: apple-codesign 0.29.0 gave the first blob for etc/entitlements.plist.
func TestEncodeEntitlements(t *testing.T) {
	long := strings.Repeat("k", 200)
	for list, want := range map[string]string{
		string(entitlements(t)): "\x70\x2d" + // application 16, 45 bytes
			"\x02\x01\x01" + // version 1
			"\xb0\x28" + // dictionary, 40 bytes
			"\x30\x26" + // entry, 38 bytes
			"\x0c\x21com.apple.security.virtualization" + // 33 bytes of UTF-8
			"\x01\x01\xff", // true
		"<key>b</key><true/><key>a</key><false/><key>B</key><true/>": "\x70\x1d\x02\x01\x01\xb0\x18" +
			"\x30\x06\x0c\x01B\x01\x01\xff" + "\x30\x06\x0c\x01a\x01\x01\x00" + "\x30\x06\x0c\x01b\x01\x01\xff",
		"<key>" + long + "</key><true/>": "\x70\x81\xd7\x02\x01\x01\xb0\x81\xd1\x30\x81\xce\x0c\x81\xc8" + long + "\x01\x01\xff",
	} {
		if strings.HasPrefix(list, "<key>") {
			list = `<plist version="1.0"><dict>` + list + "</dict></plist>"
		}
		der, err := encodeEntitlements([]byte(list))
		require.NoError(t, err)
		assert.Equal(t, want, string(der))
	}
}
