// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"net"
	"net/netip"
	"time"
)

// Gauges are what there is now, and sums since the last Reset.
type Gauges struct {
	// Of the living processes.
	Objects, Interfaces, Networks, Queues, Blocks, Threads int64
	// Of all processes.
	Started             int64 // interfaces
	FramesIn, FramesOut int64 // through vmnet_write and vmnet_read
	FramesDropped       int64 // because a ring was full or the receiver's packets are smaller
	FramesFiltered      int64 // because of a foreign IPv4 source
	ToHost, FromHost    int64 // frames
	Events, EventsLost  int64
}

// Gauges reads all gauges. It is not one moment's.
func (c *Control) Gauges() Gauges {
	live := map[string]int64{}
	for _, p := range c.alive() {
		i := 0
		c.records("live", func(name string, _ int) {
			i++
			live[name] += c.cell(p + 8*i).Load()
		})
	}
	sum := map[string]int64{}
	c.records("gauges", func(name string, at int) { sum[name] = c.cell(at + recordName).Load() })
	return Gauges{
		Objects: live["objects"], Interfaces: live["interfaces"], Networks: live["networks"], Queues: live["queues"],
		Blocks: live["blocks"], Threads: live["threads"],
		Started: sum["interfaces_started"], FramesIn: sum["frames_in"], FramesOut: sum["frames_out"],
		FramesDropped: sum["frames_dropped"], FramesFiltered: sum["frames_filtered"], ToHost: sum["frames_to_host"],
		FromHost: sum["frames_from_host"], Events: sum["events"], EventsLost: sum["events_lost"],
	}
}

// alive are the offsets of the processes that live.
func (c *Control) alive() (at []int) {
	s := c.sections["processes"]
	for i := range s.count {
		p := s.offset + i*s.size
		if c.cell(p).Load() != 0 && byteLocked(c.f, lockByte+int64(i)) {
			at = append(at, p)
		}
	}
	return at
}

// Processes are the ids of the living processes that have the file open.
func (c *Control) Processes() (pids []int) {
	for _, p := range c.alive() {
		pids = append(pids, int(c.cell(p).Load()))
	}
	return pids
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

// Owners are the subnets that are owned, and those freed that nobody has asked for since.
func (c *Control) Owners() (all []Owner) {
	s := c.sections["owners"]
	for i := range s.count {
		at := s.offset + i*s.size
		v := func(field int) int64 { return c.cell(at + 8*field).Load() }
		if v(0) == 0 {
			continue
		}
		o := Owner{
			PID: int(v(2)), Network: v(3) == 2, Mode: uint32(v(4)), Subnet: netip.PrefixFrom(ipv4(v(5)), ones(v(6))),
			Start: ipv4(v(7)), End: ipv4(v(8)), Flags: int(v(10)), MTU: int(v(11)), External: text(c.mem[at+112 : at+128]),
		}
		if v(0) > 1 {
			o.Freed = millis(v(9))
		}
		if v(13) != 0 {
			var b [16]byte
			for k := range 8 {
				b[k] = byte(v(12) >> (56 - 8*k))
			}
			o.Prefix6 = netip.PrefixFrom(netip.AddrFrom16(b), int(v(13)))
		}
		all = append(all, o)
	}
	return all
}

// ones is the length of a prefix with a mask.
func ones(mask int64) int {
	n, _ := net.IPv4Mask(byte(mask>>24), byte(mask>>16), byte(mask>>8), byte(mask)).Size()
	return n
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
	s := c.sections["rules"]
	for i := range s.count {
		at := s.offset + i*s.size
		v := func(field int) int64 { return c.cell(at + 8*field).Load() }
		if v(0) == 0 {
			continue
		}
		r := Rule{Proto: uint8(v(2)), ExternalPort: uint16(v(3)), InternalPort: uint16(v(4))}
		if v(5) != 0 {
			r.Addr = ipv4(v(5))
		}
		if v(0) > 1 {
			r.MAC = hardwareAddr(v(6))
		}
		all = append(all, r)
	}
	return all
}
