// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Values of <mach-o/loader.h>. All fields of a 64-bit Mach-O file for today's Macs are little endian.
const (
	magic64      = 0xfeedfacf
	cpuAMD64     = 0x01000007
	cpuARM64     = 0x0100000c
	typeExecute  = 2
	cmdSegment32 = 0x01
	cmdSegment64 = 0x19
	cmdSignature = 0x1d

	// header: magic, cputype, cpusubtype, filetype, ncmds, sizeofcmds, flags, reserved
	headerSize = 32
	ncmdsAt    = 16
	cmdsSizeAt = 20

	// segment_command_64: cmd, cmdsize, segname[16], vmaddr, vmsize, fileoff, filesize (8 each), maxprot, initprot,
	// nsects, flags (4 each); then the sections.
	segmentSize = 72
	vmSizeAt    = 32
	fileOffAt   = 40
	fileSizeAt  = 48
	nsectsAt    = 64

	// section_64: sectname[16], segname[16], addr, size (8 each), offset, align, … (4 each).
	sectionSize     = 80
	sectionSizeAt   = 40
	sectionOffsetAt = 48

	// linkedit_data_command: cmd, cmdsize, dataoff, datasize.
	signatureCmdSize = 16
)

// A segment is one LC_SEGMENT_64.
type segment struct {
	at         uint64 // offset of the load command in the file; 0 for none
	fileOffset uint64 // bytes
	fileSize   uint64 // bytes
}

func (s segment) end() uint64 { return s.fileOffset + s.fileSize }

// An image is a Mach-O file with the places that signing reads or changes.
type image struct {
	data      []byte
	cmdsEnd   uint64 // where the load commands end
	firstData uint64 // where the first section begins; the load commands may grow up to here
	text      segment
	linkedit  segment
	othersEnd uint64 // where the last of the other segments ends
	signature uint64 // offset of LC_CODE_SIGNATURE; 0 for none
}

func (m *image) u32(at uint64) uint32      { return binary.LittleEndian.Uint32(m.data[at:]) }
func (m *image) u64(at uint64) uint64      { return binary.LittleEndian.Uint64(m.data[at:]) }
func (m *image) put32(at uint64, v uint32) { binary.LittleEndian.PutUint32(m.data[at:], v) }
func (m *image) put64(at uint64, v uint64) { binary.LittleEndian.PutUint64(m.data[at:], v) }
func (m *image) signatureSize() uint32     { return m.u32(m.signature + 12) }
func (m *image) has(at, size uint64) bool {
	return at <= uint64(len(m.data)) && size <= uint64(len(m.data))-at
}

func (m *image) segmentName(at uint64) string {
	name, _, _ := bytes.Cut(m.data[at+8:at+24], []byte{0})
	return string(name)
}

// parse reads the header and the load commands of a file and refuses what cannot be signed.
func parse(data []byte) (*image, error) {
	m := &image{data: data, firstData: math.MaxUint64}
	if err := m.checkHeader(); err != nil {
		return nil, err
	}
	m.cmdsEnd = headerSize + uint64(m.u32(cmdsSizeAt))
	if m.cmdsEnd > uint64(len(data)) {
		return nil, fmt.Errorf("truncated: the load commands end at byte %d, the file at %d", m.cmdsEnd, len(data))
	}
	at := uint64(headerSize)
	for i := range m.u32(ncmdsAt) {
		if m.cmdsEnd-at < 8 {
			return nil, fmt.Errorf("load command %d of %d begins at byte %d, where the commands end", i, m.u32(ncmdsAt), at)
		}
		size := uint64(m.u32(at + 4))
		if size < 8 || size%8 != 0 || size > m.cmdsEnd-at {
			return nil, fmt.Errorf("load command %d at byte %d has %d bytes, want a multiple of 8 up to %d", i, at, size, m.cmdsEnd-at)
		}
		if err := m.command(at, size); err != nil {
			return nil, fmt.Errorf("load command %d at byte %d: %w", i, at, err)
		}
		at += size
	}
	if at != m.cmdsEnd {
		return nil, fmt.Errorf("the load commands end at byte %d, the header says %d", at, m.cmdsEnd)
	}
	return m, m.checkLayout()
}

// checkHeader tells what the file is, if it is not a program for one kind of Mac.
func (m *image) checkHeader() error {
	if len(m.data) < 4 {
		return fmt.Errorf("not a Mach-O file: it has only %d bytes", len(m.data))
	}
	switch be := binary.BigEndian.Uint32(m.data); {
	case be == 0xcafebabe || be == 0xcafebabf:
		return fmt.Errorf("a universal file for several architectures (it begins with %08x): sign each architecture by itself", be)
	case be == 0xcefaedfe || be == 0xfeedface || be == 0xfeedfacf:
		return fmt.Errorf("a Mach-O file for 32 bits or for big-endian machines (it begins with %08x): only arm64 and x86_64 are supported", be)
	case m.u32(0) != magic64:
		return fmt.Errorf("not a Mach-O file: it begins with %08x, want cffaedfe", be)
	}
	if len(m.data) < headerSize {
		return fmt.Errorf("truncated: the header has %d bytes, want %d", len(m.data), headerSize)
	}
	if uint64(len(m.data)) > math.MaxUint32/2 {
		return fmt.Errorf("the file has %d bytes, which is too large for its 32-bit offsets", len(m.data))
	}
	if cpu := m.u32(4); cpu != cpuAMD64 && cpu != cpuARM64 {
		return fmt.Errorf("a program for CPU type %#x, want arm64 (%#x) or x86_64 (%#x)", cpu, cpuARM64, cpuAMD64)
	}
	if t := m.u32(12); t != typeExecute {
		return fmt.Errorf("a Mach-O file of type %d, want an executable (%d)", t, typeExecute)
	}
	return nil
}

// command notes the load command at offset at if signing has to do with it.
func (m *image) command(at, size uint64) error {
	switch m.u32(at) {
	case cmdSegment32:
		return errors.New("LC_SEGMENT, which is for 32-bit files")
	case cmdSegment64:
		return m.segment(at, size)
	case cmdSignature:
		if m.signature != 0 {
			return fmt.Errorf("a second LC_CODE_SIGNATURE; the first is at byte %d", m.signature)
		}
		if size != signatureCmdSize {
			return fmt.Errorf("LC_CODE_SIGNATURE has %d bytes, want %d", size, signatureCmdSize)
		}
		m.signature = at
	}
	return nil
}

// segment reads an LC_SEGMENT_64 of size bytes.
func (m *image) segment(at, size uint64) error {
	if size < segmentSize {
		return fmt.Errorf("LC_SEGMENT_64 has %d bytes, want at least %d", size, segmentSize)
	}
	if n := uint64(m.u32(at + nsectsAt)); segmentSize+n*sectionSize != size {
		return fmt.Errorf("LC_SEGMENT_64 with %d sections has %d bytes, want %d", n, size, segmentSize+n*sectionSize)
	}
	s := segment{at: at, fileOffset: m.u64(at + fileOffAt), fileSize: m.u64(at + fileSizeAt)}
	name := m.segmentName(at)
	if !m.has(s.fileOffset, s.fileSize) {
		return fmt.Errorf("segment %s holds %d bytes from byte %d on, but the file ends at %d: truncated?", name, s.fileSize, s.fileOffset, len(m.data))
	}
	for sect := at + segmentSize; sect < at+size; sect += sectionSize {
		if off := uint64(m.u32(sect + sectionOffsetAt)); off != 0 && m.u64(sect+sectionSizeAt) != 0 {
			m.firstData = min(m.firstData, off)
		}
	}
	switch name {
	case "__TEXT":
		return m.text.set(s, name)
	case "__LINKEDIT":
		return m.linkedit.set(s, name)
	}
	m.othersEnd = max(m.othersEnd, s.end())
	return nil
}

// set takes the one segment of that name.
func (s *segment) set(found segment, name string) error {
	if s.at != 0 {
		return fmt.Errorf("a second segment %s; the first is at byte %d", name, s.at)
	}
	*s = found
	return nil
}

// checkLayout wants __TEXT first, __LINKEDIT last, and an old signature at the very end.
func (m *image) checkLayout() error {
	switch {
	case m.text.at == 0:
		return errors.New("no segment __TEXT")
	case m.linkedit.at == 0:
		return errors.New("no segment __LINKEDIT")
	case m.text.fileOffset != 0 || m.text.fileSize < m.cmdsEnd:
		return fmt.Errorf("segment __TEXT holds %d bytes from byte %d on, which does not cover the load commands (%d bytes)",
			m.text.fileSize, m.text.fileOffset, m.cmdsEnd)
	case m.linkedit.fileOffset < max(m.text.end(), m.othersEnd) || m.linkedit.end() != uint64(len(m.data)):
		return fmt.Errorf("segment __LINKEDIT is not last: it holds %d bytes from byte %d on, the file has %d",
			m.linkedit.fileSize, m.linkedit.fileOffset, len(m.data))
	case m.firstData < m.cmdsEnd:
		return fmt.Errorf("a section begins at byte %d, inside the load commands (%d bytes)", m.firstData, m.cmdsEnd)
	case m.signature == 0:
		return nil
	}
	off, size := uint64(m.u32(m.signature+8)), uint64(m.u32(m.signature+12))
	if off < m.linkedit.fileOffset || off+size != m.linkedit.end() {
		return fmt.Errorf("the signature holds %d bytes from byte %d on, want the end of __LINKEDIT (bytes %d to %d)",
			size, off, m.linkedit.fileOffset, m.linkedit.end())
	}
	return nil
}
