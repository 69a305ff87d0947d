// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
)

// A line of tables.h.
type tableLine struct {
	macro, name string
	preset      int64
}

var tablePattern = regexp.MustCompile(`(?m)^(CALL|FAULT|SWITCH|GAUGE|LIVE)\((\w+)(?:, (\w+))?\)$`)

// tables are the lines of tables.h, which both sides make the file from.
func tables() (lines []tableLine, err error) {
	b, err := csrc.ReadFile("csrc/tables.h")
	if err != nil {
		return nil, err
	}
	for _, m := range tablePattern.FindAllStringSubmatch(string(b), -1) {
		l := tableLine{macro: m[1], name: m[2]}
		switch l.macro {
		case "FAULT":
			l.macro, l.name = "SWITCH", m[2]+"."+m[3]
		case "SWITCH":
			if l.preset, err = strconv.ParseInt(m[3], 10, 64); err != nil {
				return nil, fmt.Errorf("tables.h: %s: %w", m[0], err)
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// image is a fresh control file, byte for byte as control.c makes it.
func image() ([]byte, error) {
	lines, err := tables()
	if err != nil {
		return nil, err
	}
	mem := make([]byte, headerSize)
	var count int
	add := func(name string, n, size int) {
		b := mem[24+32*count:]
		count++
		copy(b, name)
		binary.NativeEndian.PutUint32(b[16:], uint32(len(mem)))
		binary.NativeEndian.PutUint32(b[20:], uint32(n))
		binary.NativeEndian.PutUint32(b[24:], uint32(size))
		mem = append(mem, make([]byte, n*size)...)
	}
	for _, sec := range [][2]string{{"calls", "CALL"}, {"switches", "SWITCH"}, {"gauges", "GAUGE"}, {"live", "LIVE"}} {
		var records []byte
		for _, l := range lines {
			if l.macro == sec[1] {
				records = append(records, record(l)...)
			}
		}
		at := len(mem)
		add(sec[0], len(records)/recordSize, recordSize)
		copy(mem[at:], records)
	}
	add("processes", processes, processSize)
	add("owners", owners, ownerSize)
	add("rules", rules, ruleSize)
	add("launch", launches, launchSize)
	add("leases", leases, leaseSize)
	mem = append(mem, make([]byte, -len(mem)&63)...)
	copy(mem, magic)
	binary.NativeEndian.PutUint32(mem[16:], version)
	binary.NativeEndian.PutUint32(mem[20:], uint32(len(mem)))
	return mem, nil
}

func record(l tableLine) []byte {
	b := make([]byte, recordSize)
	copy(b, l.name)
	binary.NativeEndian.PutUint64(b[recordName:], uint64(l.preset))
	binary.NativeEndian.PutUint64(b[recordName+24:], uint64(l.preset))
	return b
}
