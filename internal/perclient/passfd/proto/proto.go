// SPDX-License-Identifier: Apache-2.0

// Package proto is the protocol of the sockets attach and adopt, by which a client gets a connected descriptor from the
// daemon or hands one over, and the client's side of it for our own programs; module attach is the same for all others. Both sides say
// one line of JSON:
//
//	client: {"version":1,"transport":"dgram","name":"web","mac":"52:54:00:12:34:56","interface_id":"6ba7b810-..."}\n
//	daemon: {"version":1,"transport":"dgram","backend":"usernet","mode":"shared",...,"vmnet_mac_address":"..."}\n
//	daemon: {"version":1,"error":{"code":"bad-request","text":"..."}}\n
//
// A descriptor, by SCM_RIGHTS, comes with the first byte of the line: of the reply on attach, of the request on adopt. On
// adopt a single NUL byte may stand for the request, or nothing at all where the system passes descriptors without data;
// no reply is sent then. The whole is described in docs/protocol.md.
package proto

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
)

const (
	// Version is the version of the protocol that this package speaks.
	Version = 1

	// MaxLine is the longest request, in bytes with its line end.
	MaxLine = 4096

	// MaxReply is the longest reply that is read, in bytes with its line end. Those that Encode makes are shorter than
	// MaxLine; later daemons may have more to tell.
	MaxReply = 16 << 10

	// maxName is the longest name of a client, in bytes.
	maxName = 128

	// maxText is how much of an error's text goes into a reply, in bytes.
	maxText = 1024
)

// A Transport is the kind of socket that carries the frames.
type Transport string

// The transports.
const (
	Datagram Transport = "dgram"  // one frame per datagram
	Stream   Transport = "stream" // the wire format of package frame
)

// A Code says what kind of error happened. A client may meet codes that it does not know.
type Code string

// The codes of version 1.
const (
	BadRequest         Code = "bad-request"         // not JSON, or a key with a value that it cannot have
	unsupportedVersion Code = "unsupported-version" // of a later protocol
	tooLong            Code = "too-long"            // the line
	BadDescriptor      Code = "bad-descriptor"      // none, several, or one that cannot carry frames
	IDInUse            Code = "id-in-use"           // another client has the interface id
	Full               Code = "full"                // as many clients as the daemon serves, or has descriptors for
	Stopping           Code = "stopping"            // the daemon
	NoNetwork          Code = "no-network"          // the client's interface could not be started
	Denied             Code = "denied"              // the daemon does not serve this user or path
	Internal           Code = "internal"            // anything else
)

// An Error is an error as it is said to the other side.
type Error struct {
	Code Code   `json:"code"`
	Text string `json:"text"` // for people: what happened and what to do
}

// Error is the text with the code in front.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// A UUID is an interface id; null for none.
type UUID [16]byte

// String is u in lower case with dashes.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// ParseUUID reads an interface id as a request has it: with dashes, in small letters or capitals, and not null.
func ParseUUID(s string) (u UUID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	copy(u[:], b)
	if err != nil || u.String() != strings.ToLower(s) || u == (UUID{}) {
		return UUID{}, badValue("interface_id", s, "a UUID such as 6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	}
	return u, nil
}

// ParseMAC reads an Ethernet address as a request has it: of one machine, so neither a group's nor null.
func ParseMAC(s string) (net.HardwareAddr, error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 || m[0]&1 != 0 || slices.Max(m) == 0 {
		return nil, badValue("mac", s, "the Ethernet address of one machine, such as 52:54:00:12:34:56")
	}
	return m, nil
}

// A Request is what a client asks for.
type Request struct {
	Version     int       // 0 is Version
	Transport   Transport // empty is Datagram
	Name        string    // what the client calls itself, for logs and as its identity
	MAC         net.HardwareAddr
	InterfaceID UUID
	// Wait is for adopt alone: the connection stays open after the reply and is the lifeline of the session, as it always
	// is on attach.
	Wait bool
}

// A Reply is the daemon's answer: an error, or what the client is attached to. What does not apply is left out.
type Reply struct {
	Version   int       `json:"version"`
	Transport Transport `json:"transport"`
	Backend   string    `json:"backend"`
	Mode      string    `json:"mode"`
	Interface string    `json:"interface,omitempty"` // of the host, in bridged mode
	Gateway   string    `json:"gateway,omitempty"`
	Isolated  bool      `json:"isolated"`
	Offload   bool      `json:"offload"`

	// The keys of vmnet-helper.
	MACAddress      string `json:"vmnet_mac_address,omitempty"`
	MTU             int    `json:"vmnet_mtu,omitempty"`             // bytes, layer 3
	MaxPacketSize   int    `json:"vmnet_max_packet_size,omitempty"` // bytes, layer 2
	SubnetMask      string `json:"vmnet_subnet_mask,omitempty"`
	StartAddress    string `json:"vmnet_start_address,omitempty"` // the gateway's
	EndAddress      string `json:"vmnet_end_address,omitempty"`   // the last that DHCP gives away
	InterfaceID     string `json:"vmnet_interface_id,omitempty"`
	ReadMaxPackets  int    `json:"vmnet_read_max_packets,omitempty"`
	WriteMaxPackets int    `json:"vmnet_write_max_packets,omitempty"`

	Error *Error `json:"-"` // nothing else counts then
}
