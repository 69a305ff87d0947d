// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
)

// A table has the names of a kind in tables.h, in their order, and what they are preset to.
type table struct {
	names   []string
	presets []int64
}

var (
	tablePattern = regexp.MustCompile(`#define (\w+)_TABLE\(X\)((?:.*\\\n)+.*)`)
	rowPattern   = regexp.MustCompile(`X\((\w+)(?:, (\w+))?\)`)
)

// tables are those of tables.h by kind, faults among the switches.
func tables() (map[string]*table, error) {
	b, err := csrc.ReadFile("csrc/tables.h")
	if err != nil {
		return nil, err
	}
	all := map[string]*table{"CALL": {}, "SWITCH": {}, "GAUGE": {}, "LIVE": {}}
	for _, m := range tablePattern.FindAllStringSubmatch(string(b), -1) {
		for _, row := range rowPattern.FindAllStringSubmatch(m[2], -1) {
			kind, name, preset := m[1], row[1], int64(0)
			switch kind {
			case "FAULT":
				kind, name = "SWITCH", row[1]+"."+row[2]
			case "SWITCH":
				if preset, err = strconv.ParseInt(row[2], 10, 64); err != nil {
					return nil, fmt.Errorf("tables.h: %s: %w", row[0], err)
				}
			}
			t := all[kind]
			t.names, t.presets = append(t.names, name), append(t.presets, preset)
		}
	}
	return all, nil
}

// image is a fresh control file, byte for byte as control.c makes it, and sets where its parts are.
func (c *Control) image() ([]byte, error) {
	var err error
	if c.tables, err = tables(); err != nil {
		return nil, err
	}
	size := headerSize
	add := func(count, each int) section {
		s := section{size, count, each}
		size += count * each
		return s
	}
	c.calls = add(len(c.tables["CALL"].names), recordSize)
	switches := add(len(c.tables["SWITCH"].names), recordSize)
	c.gauges = add(len(c.tables["GAUGE"].names), recordSize)
	c.processes = add(processes, processSize)
	c.owners = add(owners, ownerSize)
	c.rules = add(rules, ruleSize)
	c.launches = add(launches, launchSize)
	add(leases, leaseSize)
	mem := make([]byte, size)
	copy(mem, magic)
	binary.NativeEndian.PutUint32(mem[16:], version)
	binary.NativeEndian.PutUint32(mem[20:], uint32(size))
	c.switches = map[Switch]int{}
	for i, name := range c.tables["SWITCH"].names {
		at := switches.at(i)
		c.switches[Switch(name)] = at
		binary.NativeEndian.PutUint64(mem[at:], uint64(c.tables["SWITCH"].presets[i]))
		binary.NativeEndian.PutUint64(mem[at+24:], uint64(c.tables["SWITCH"].presets[i]))
	}
	return mem, nil
}
