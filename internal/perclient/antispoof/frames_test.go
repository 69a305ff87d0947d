// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Frames in these tests are written as hex digits, field by field, with spaces between fields.
const (
	all    = "ffffffffffff"
	macA   = "020000000001"
	macB   = "020000000002"
	macGW  = "5a94ef010203"
	none   = "000000000000"
	ipA    = "c0a86902" // 192.168.105.2
	ipB    = "c0a86903"
	ipC    = "c0a86904"
	ipGW   = "c0a86901"
	ipHost = "c0a869fe" // the alias of the host
	ip0    = "00000000"
	ipAll  = "ffffffff"

	llA     = "fe80 0000 0000 0000 0000 00ff fe00 0001" // follows from macA
	llB     = "fe80 0000 0000 0000 0000 00ff fe00 0002"
	six0    = "0000 0000 0000 0000 0000 0000 0000 0000"
	allNode = "ff02 0000 0000 0000 0000 0000 0000 0001"
)

// raw is what the given fields hold.
func raw(fields ...string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(strings.Join(fields, " ")), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func digits(b []byte) string { return hex.EncodeToString(b) }

func be16(n int) string { return digits(binary.BigEndian.AppendUint16(nil, uint16(n))) }

// arp is an ARP frame of 42 bytes: op is 0001 or 0002.
func arp(src, op, senderMAC, sender, target string) []byte {
	return raw(
		all, src, "0806", // Ethernet
		"0001 0800 06 04", op, // hardware and protocol, their lengths
		senderMAC, sender,
		none, target)
}

// ipv4 is a frame with an IPv4 packet from src; frag is the field of flags and fragment offset.
func ipv4(mac, src, frag, proto string, payload ...string) []byte {
	p := raw(payload...)
	return raw(
		macGW, mac, "0800", // Ethernet
		"45 00", be16(20+len(p)), "0000", frag, "40", proto, "0000", // version and length, TOS, total, id, fragment, TTL, protocol, checksum
		src, ipGW,
		digits(p))
}

// udp is a datagram's fields.
func udp(sport, dport int, payload ...string) string {
	p := raw(payload...)
	return be16(sport) + be16(dport) + be16(8+len(p)) + "0000" + digits(p)
}

// dhcpMessage is a DHCP message: op 01 from a client, 02 from a server.
func dhcpMessage(op, xid, ciaddr, yiaddr, relay, chaddr string, options ...string) string {
	return strings.Join([]string{
		op, "01 06 00", xid, "0000 0000", // op, Ethernet, length, hops, transaction, seconds, flags
		ciaddr, yiaddr, ip0, relay,
		chaddr, strings.Repeat("00", 10+64+128), // padding, server's name, file
		"63825363", strings.Join(options, ""), "ff",
	}, "")
}

// toServer is a client's DHCP frame of the given kind, such as "03", REQUEST.
func toServer(mac, src, kind string, options ...string) []byte {
	ciaddr := src
	return ipv4(mac, src, "0000", "11", udp(68, 67, dhcpMessage("01", "00000007", ciaddr, ip0, ip0, mac, append(options, "3501"+kind)...)))
}

// fromServer is the gateway's DHCP frame to a client.
func fromServer(chaddr, yiaddr, kind string, options ...string) []byte {
	return reply(macGW, ipGW, "00000007", chaddr, yiaddr, kind, options...)
}

func reply(mac, src, xid, chaddr, yiaddr, kind string, options ...string) []byte {
	f := ipv4(mac, src, "0000", "11", udp(67, 68, dhcpMessage("02", xid, ip0, yiaddr, ip0, chaddr, append(options, "3501"+kind)...)))
	copy(f, raw(all))
	return f
}

// hour is option 51, a lease of an hour.
const hour = "3304 00000e10"

// ipv6 is a frame with an IPv6 packet from src, whose first header behind the fixed one is of type next.
func ipv6(mac, src, next string, payload ...string) []byte {
	p := raw(payload...)
	return raw(
		"333300000001", mac, "86dd", // Ethernet
		"60000000", be16(len(p)), next, "ff", // version, length, next header, hop limit
		src, allNode,
		digits(p))
}

// nd is a message of neighbour discovery with a target.
func nd(kind, target string, options ...string) string {
	return kind + " 00 0000 00000000" + target + strings.Join(options, "")
}
