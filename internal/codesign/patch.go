// SPDX-License-Identifier: Apache-2.0

package codesign

import "fmt"

// unsigned returns a copy of the image that has a load command for a signature and ends, padded, where one begins.
func (m *image) unsigned() (*image, error) {
	c := *m
	end := uint64(len(m.data))
	if m.signature != 0 {
		end = uint64(m.u32(m.signature + 8))
	}
	start := alignUp(end, signatureAlign)
	c.data = make([]byte, start)
	copy(c.data, m.data[:end])
	if c.signature == 0 {
		if err := c.addCommand(); err != nil {
			return nil, err
		}
	}
	c.put32(c.signature+8, uint32(start))
	c.linkedit.fileSize = start - c.linkedit.fileOffset
	return &c, nil
}

// addCommand appends an empty LC_CODE_SIGNATURE to the load commands. Linkers leave room for it.
func (m *image) addCommand() error {
	if m.firstData < m.cmdsEnd+signatureCmdSize || m.text.fileSize < m.cmdsEnd+signatureCmdSize {
		return fmt.Errorf("no room for LC_CODE_SIGNATURE: the load commands end at byte %d, the first section begins at byte %d",
			m.cmdsEnd, min(m.firstData, m.text.fileSize))
	}
	for i, b := range m.data[m.cmdsEnd : m.cmdsEnd+signatureCmdSize] {
		if b != 0 {
			return fmt.Errorf("no room for LC_CODE_SIGNATURE: byte %d behind the load commands is in use", m.cmdsEnd+uint64(i))
		}
	}
	m.signature = m.cmdsEnd
	m.cmdsEnd += signatureCmdSize
	m.put32(m.signature, cmdSignature)
	m.put32(m.signature+4, signatureCmdSize)
	m.put32(ncmdsAt, m.u32(ncmdsAt)+1)
	m.put32(cmdsSizeAt, uint32(m.cmdsEnd-headerSize))
	return nil
}

// reserve makes the load commands say that size bytes of signature follow the image.
func (m *image) reserve(size uint32) {
	m.put32(m.signature+12, size)
	m.linkedit.fileSize = uint64(len(m.data)) + uint64(size) - m.linkedit.fileOffset
	m.put64(m.linkedit.at+fileSizeAt, m.linkedit.fileSize)
	page := uint64(4 << 10)
	if m.u32(4) == cpuARM64 {
		page = 16 << 10
	}
	m.put64(m.linkedit.at+vmSizeAt, alignUp(m.linkedit.fileSize, page))
}
