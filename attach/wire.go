// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

const (
	// version is the protocol's version that this package speaks.
	version = 1
	// maxReply bounds a reply line, in bytes with its newline. Those of version 1 have less than 1,000.
	maxReply = 16 << 10
)

// request is what a client sends: one line.
type request struct {
	Version     int       `json:"version"`
	Transport   Transport `json:"transport"`
	Name        string    `json:"name,omitempty"`
	MAC         string    `json:"mac,omitempty"`
	InterfaceID string    `json:"interface_id,omitempty"`
	Wait        bool      `json:"wait,omitempty"` // adopt: the connection is the lifeline
}

// encode returns the request's line.
func (r *request) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings, a number and a bool
	}
	return append(b, '\n')
}

// reply is what the daemon answers: one line.
type reply struct {
	Version int      `json:"version"`
	Error   *refusal `json:"error"`
	Address string   `json:"vmnet_mac_address"`
	Mask    string   `json:"vmnet_subnet_mask"`
	Info
}

// refusal is the error in a reply.
type refusal struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Info is what the daemon tells of a link. What does not apply, as a bridged network's addresses, has its zero value.
type Info struct {
	Transport Transport `json:"transport"`
	Backend   string    `json:"backend"`   // "vmnet" or "usernet"
	Mode      string    `json:"mode"`      // "shared", "host" or "bridged"
	Interface string    `json:"interface"` // the system's network interface of a bridged network, or the uplink
	Isolated  bool      `json:"isolated"`  // clients do not see each other
	Offload   bool      `json:"offload"`   // frames of up to MaxFrame bytes that ask for segmentation and checksums

	MAC         net.HardwareAddr `json:"-"`                     // the interface's; a guest may have another
	MTU         int              `json:"vmnet_mtu"`             // bytes of a packet, without the Ethernet header
	MaxFrame    int              `json:"vmnet_max_packet_size"` // bytes of a frame, with it
	InterfaceID string           `json:"vmnet_interface_id"`    // UUID

	Gateway netip.Addr   `json:"gateway"`
	Subnet  netip.Prefix `json:"-"`
	Start   netip.Addr   `json:"vmnet_start_address"` // first address of the range: the host's
	End     netip.Addr   `json:"vmnet_end_address"`   // last address that DHCP gives out

	ReadMaxPackets  int `json:"vmnet_read_max_packets"`
	WriteMaxPackets int `json:"vmnet_write_max_packets"`

	// JSON is the reply's line as it came, without the newline: its keys are vmnet-helper's, and a later daemon's may have
	// more of them than Info has fields.
	JSON []byte `json:"-"`
}

// errReply is what is wrong with a reply that is not the protocol's.
var errReply = errors.New("not a reply of this protocol; is it socket_vmnet2 that listens there?")

// decodeReply reads a reply's line, with its newline. The daemon's refusal is returned as *Error.
func decodeReply(line []byte) (Info, error) {
	text, ok := bytes.CutSuffix(line, []byte("\n"))
	text = bytes.TrimSpace(text)
	if !ok || !bytes.HasPrefix(text, []byte("{")) {
		return Info{}, errReply
	}
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return Info{}, fmt.Errorf("%w (%w)", errReply, err)
	}
	if r.Error != nil {
		if r.Error.Code == "" {
			return Info{}, errReply
		}
		return Info{}, &Error{Code: r.Error.Code, Text: r.Error.Text}
	}
	if r.Version != version {
		return Info{}, fmt.Errorf("%w (version %d, want %d)", errReply, r.Version, version)
	}
	return r.info(bytes.Clone(text))
}

// info is the reply's Info with what is no value in JSON.
func (r *reply) info(text []byte) (i Info, err error) {
	i = r.Info
	i.InterfaceID, i.JSON = strings.ToLower(i.InterfaceID), text
	if i.Transport == "" {
		i.Transport = Datagram
	}
	if r.Address != "" {
		if i.MAC, err = net.ParseMAC(r.Address); err != nil {
			return i, fmt.Errorf("%w (vmnet_mac_address: %w)", errReply, err)
		}
	}
	if i.Subnet, err = subnet(i.Start, r.Mask); err != nil {
		return i, fmt.Errorf("%w (vmnet_subnet_mask: %w)", errReply, err)
	}
	return i, nil
}

// subnet returns the subnet of an address, the zero Prefix without one.
func subnet(start netip.Addr, mask string) (netip.Prefix, error) {
	if mask == "" || !start.Is4() {
		return netip.Prefix{}, nil
	}
	m, err := netip.ParseAddr(mask)
	if err != nil {
		return netip.Prefix{}, err
	}
	ones, bits := net.IPMask(m.AsSlice()).Size()
	if bits != 32 {
		return netip.Prefix{}, fmt.Errorf("%s is not an IPv4 mask", mask)
	}
	return start.Prefix(ones)
}
