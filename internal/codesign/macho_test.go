// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where things are in the file that small makes.
const (
	smallText     = headerSize + segmentSize              // the command for __TEXT, behind that for __PAGEZERO
	smallLinkedit = smallText + segmentSize + sectionSize // the command for __LINKEDIT
	smallSpare    = smallLinkedit + segmentSize           // the first byte behind the commands
	smallData     = 0x800                                 // the first section
	smallEnd      = 0x2000 + 1001                         // of the file, on purpose not aligned
)

// small makes the smallest program worth signing, for arm64 and without a signature: two pages and a bit.
func small() []byte {
	le := binary.LittleEndian
	b := make([]byte, smallEnd)
	for i, v := range []uint32{magic64, cpuARM64, 0, typeExecute, 3, smallSpare - headerSize, 0x200085, 0} {
		le.PutUint32(b[4*i:], v)
	}
	segment := func(at uint64, name string, addr, vmSize, offset, size uint64, sections uint32) {
		le.PutUint32(b[at:], cmdSegment64)
		le.PutUint32(b[at+4:], segmentSize+sections*sectionSize)
		copy(b[at+8:], name)
		for i, v := range []uint64{addr, vmSize, offset, size} {
			le.PutUint64(b[at+24+8*uint64(i):], v)
		}
		le.PutUint32(b[at+nsectsAt:], sections)
	}
	segment(headerSize, "__PAGEZERO", 0, 1<<32, 0, 0, 0)
	segment(smallText, "__TEXT", 1<<32, 0x2000, 0, 0x2000, 1)
	section := smallText + segmentSize
	copy(b[section:], "__text")
	copy(b[section+16:], "__TEXT")
	le.PutUint64(b[section+32:], 1<<32+smallData)
	le.PutUint64(b[section+sectionSizeAt:], 0x2000-smallData)
	le.PutUint32(b[section+sectionOffsetAt:], smallData)
	segment(smallLinkedit, "__LINKEDIT", 1<<32+0x4000, 1001, 0x2000, 1001, 0)
	for i := smallData; i < len(b); i++ {
		b[i] = byte(i * 7)
	}
	return b
}

// programs are real ones, as Go's linker leaves them: signed by the linker on arm64 only.
func programs(t *testing.T) map[string][]byte {
	t.Helper()
	built := map[string][]byte{}
	for _, arch := range []string{"arm64", "amd64"} {
		out := filepath.Join(t.TempDir(), arch)
		c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, "../../cmd/socket_vmnet_client")
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch)
		text, err := c.CombinedOutput()
		require.NoError(t, err, "%s", text)
		built[arch], err = os.ReadFile(out)
		require.NoError(t, err)
	}
	return built
}
