// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"encoding/binary"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Gauges are what the living processes have now, and what all processes did since the last Reset.
type Gauges struct {
	Objects, Interfaces, Networks, Queues, Blocks int64
	FramesIn                                      int64 // through vmnet_write
	FramesDropped                                 int64 // because a ring was full or the receiver's packets are smaller
	Events                                        int64
}

// Gauges reads all gauges. It is not one moment's.
func (c *Control) Gauges() Gauges {
	v := map[string]int64{}
	for i := range c.processes.count {
		p := c.processes.at(i)
		for k, name := range c.tables["LIVE"].names {
			if c.cell(p).Load() != 0 && c.lives(i) {
				v[name] += c.cell(p + 8 + 8*k).Load()
			}
		}
	}
	for i, name := range c.tables["GAUGE"].names {
		v[name] = c.cell(c.gauges.at(i)).Load()
	}
	return Gauges{
		Objects: v["objects"], Interfaces: v["interfaces"], Networks: v["networks"], Queues: v["queues"], Blocks: v["blocks"],
		FramesIn: v["frames_in"], FramesDropped: v["frames_dropped"], Events: v["events"],
	}
}

// lives tells whether the process with an index holds the lock on its byte, as each living one does.
func (c *Control) lives(i int) bool {
	const getlk = 36 // F_OFD_GETLK of Linux
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lockByte + int64(i), Len: 1}
	return syscall.FcntlFlock(c.f.Fd(), getlk, &l) != nil || l.Type != syscall.F_UNLCK
}

// Flags of an Owner: what its configuration switched off.
const (
	NoNAT44 = 1 << iota
	NoNAT66
	NoDHCP
	NoDNSProxy
	NoRA
)

// An Owner is a network that owns a subnet, or did until lately.
type Owner struct {
	PID        int
	Network    bool // a vmnet_network_ref, else plain interfaces
	Mode       uint32
	Subnet     netip.Prefix
	Start, End netip.Addr
	Freed      time.Time // zero while it is owned
	Flags      int
	MTU        int
	Prefix6    netip.Prefix // invalid for none
	External   string
}

// Owners are the subnets that are owned, and those freed that were not asked for since.
func (c *Control) Owners() (all []Owner) {
	for i := range c.owners.count {
		at := c.owners.at(i)
		v := func(field int) int64 { return c.cell(at + 8*field).Load() }
		if v(0) == 0 {
			continue
		}
		external, _, _ := strings.Cut(string(c.mem[at+112:at+128]), "\x00")
		o := Owner{
			PID: int(v(2)), Network: v(3) == 2, Mode: uint32(v(4)), Subnet: netip.PrefixFrom(ipv4(v(5)), bits.OnesCount32(uint32(v(6)))),
			Start: ipv4(v(7)), End: ipv4(v(8)), Flags: int(v(10)), MTU: int(v(11)), External: external,
		}
		if v(0) > 1 {
			o.Freed = time.UnixMilli(v(9))
		}
		if v(13) != 0 {
			var b [16]byte
			binary.BigEndian.PutUint64(b[:], uint64(v(12)))
			o.Prefix6 = netip.PrefixFrom(netip.AddrFrom16(b), int(v(13)))
		}
		all = append(all, o)
	}
	return all
}

// A Rule is a port forwarding or a DHCP reservation in force.
type Rule struct {
	Proto        uint8 // of IP; 0 for a reservation
	ExternalPort uint16
	InternalPort uint16
	Addr         netip.Addr       // invalid for IPv6
	MAC          net.HardwareAddr // of a reservation
}

// Rules are the rules in force, of all processes.
func (c *Control) Rules() (all []Rule) {
	for i := range c.rules.count {
		at := c.rules.at(i)
		v := func(field int) int64 { return c.cell(at + 8*field).Load() }
		if v(0) == 0 {
			continue
		}
		r := Rule{Proto: uint8(v(2)), ExternalPort: uint16(v(3)), InternalPort: uint16(v(4))}
		if v(5) != 0 {
			r.Addr = ipv4(v(5))
		}
		if v(0) > 1 {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(v(6)))
			r.MAC = b[2:]
		}
		all = append(all, r)
	}
	return all
}
