// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"encoding/binary"
	"net"
)

var (
	guestMAC  = net.HardwareAddr{0x52, 0x54, 0x00, 0x00, 0x00, 0x11}
	serverMAC = net.HardwareAddr{0x5a, 0x94, 0xef, 0xe4, 0x0c, 0xdd}
)

// goldenRequest is a DHCPREQUEST after an offer, as busybox's udhcpc sends it, laid out by field.
var goldenRequest = join(
	[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},                   // Ethernet destination
	[]byte{0x52, 0x54, 0x00, 0x00, 0x00, 0x11},                   // Ethernet source
	[]byte{0x08, 0x00},                                           // type IPv4
	[]byte{0x45, 0x00, 0x01, 0x29},                               // version 4, 5 words, TOS 0, total length 297
	[]byte{0x00, 0x00, 0x00, 0x00},                               // id 0, no fragment
	[]byte{0x40, 0x11, 0x00, 0x00},                               // TTL 64, UDP, checksum
	[]byte{0, 0, 0, 0},                                           // source 0.0.0.0
	[]byte{255, 255, 255, 255},                                   // destination
	[]byte{0, 68, 0, 67},                                         // ports: client to server
	[]byte{0x01, 0x15, 0, 0},                                     // UDP length 277, no checksum
	[]byte{1, 1, 6, 0},                                           // BOOTREQUEST, Ethernet, 6 bytes, hops 0
	[]byte{0xde, 0xad, 0xbe, 0xef},                               // xid
	[]byte{0, 0, 0, 0},                                           // secs 0, flags 0
	[]byte{0, 0, 0, 0},                                           // ciaddr
	[]byte{0, 0, 0, 0},                                           // yiaddr
	[]byte{0, 0, 0, 0},                                           // siaddr
	[]byte{0, 0, 0, 0},                                           // giaddr
	[]byte{0x52, 0x54, 0x00, 0x00, 0x00, 0x11}, make([]byte, 10), // chaddr
	make([]byte, 64+128),               // sname, file
	[]byte{0x63, 0x82, 0x53, 0x63},     // magic cookie
	[]byte{53, 1, 3},                   // option: REQUEST
	[]byte{50, 4, 192, 168, 105, 17},   // option: requested address
	[]byte{54, 4, 192, 168, 105, 1},    // option: server
	[]byte{12, 5, 'a', 'l', 'p', 'h'},  // option: hostname ...
	[]byte{'a', 0, 0, 0, 0, 0, 0, 255}, // ... its last letter, padding, end
)

// goldenARP is a request by 192.168.105.17 for the gateway.
var goldenARP = join(
	[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, // Ethernet destination
	[]byte{0x52, 0x54, 0x00, 0x00, 0x00, 0x11}, // Ethernet source
	[]byte{0x08, 0x06},                         // type ARP
	[]byte{0x00, 0x01, 0x08, 0x00, 6, 4},       // Ethernet, IPv4
	[]byte{0x00, 0x01},                         // request
	[]byte{0x52, 0x54, 0x00, 0x00, 0x00, 0x11}, // sender MAC
	[]byte{192, 168, 105, 17},                  // sender IP
	[]byte{0, 0, 0, 0, 0, 0},                   // target MAC
	[]byte{192, 168, 105, 1},                   // target IP
)

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// arpFrame varies goldenARP.
func arpFrame(op byte, mac net.HardwareAddr, sender, target [4]byte) []byte {
	f := bytes.Clone(goldenARP)
	copy(f[6:], mac)
	f[21] = op
	copy(f[22:], mac)
	copy(f[28:], sender[:])
	copy(f[38:], target[:])
	return f
}

// dhcp describes a DHCP message; its zero value is a BOOTP request without a type.
type dhcp struct {
	kind           byte
	reply          bool
	chaddr         net.HardwareAddr // default guestMAC
	ciaddr, yiaddr [4]byte
	options        []byte // raw, behind the type
	ipOptions      int    // extra words of the IPv4 header
	padding        int    // bytes behind the packet
}

// frame is the Ethernet frame for d.
func (d dhcp) frame() []byte {
	mac := d.chaddr
	if mac == nil {
		mac = guestMAC
	}
	p := make([]byte, 240, 400)
	p[0], p[1], p[2] = 1, 1, 6
	copy(p[12:], d.ciaddr[:])
	copy(p[16:], d.yiaddr[:])
	copy(p[28:], mac)
	copy(p[236:], []byte{0x63, 0x82, 0x53, 0x63})
	if d.kind != 0 {
		p = append(p, 53, 1, d.kind)
	}
	p = append(append(p, d.options...), 255)
	ports, src, dst := []byte{0, 68, 0, 67}, mac, net.HardwareAddr{255, 255, 255, 255, 255, 255}
	if d.reply {
		p[0], ports, src, dst = 2, []byte{0, 67, 0, 68}, serverMAC, mac
	}
	ip := make([]byte, 20+4*d.ipOptions)
	ip[0], ip[8], ip[9] = byte(0x45+d.ipOptions), 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+8+len(p)))
	udp := binary.BigEndian.AppendUint16(ports, uint16(8+len(p)))
	return join(dst, src, []byte{8, 0}, ip, udp, []byte{0, 0}, p, make([]byte, d.padding))
}

// option is one DHCP option.
func option(code byte, v string) []byte { return join([]byte{code, byte(len(v))}, []byte(v)) }
