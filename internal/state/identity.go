// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/hex"
	"fmt"
	"net/netip"
)

// An identity is what makes a network of vmnet.framework the same one after a restart.
type identity struct {
	anchor [16]byte     // UUID of the interface that lives as long as the network; null = none
	subnet netip.Prefix // IPv4, masked; invalid = none
}

// minSubnetBits and maxSubnetBits are the lengths of netmasks that --vmnet-mask takes.
const (
	minSubnetBits = 8
	maxSubnetBits = 30
)

// AnchorID is the UUID of the network's first interface, false when none is known.
func (f *File) AnchorID() ([16]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id.anchor, f.id.anchor != [16]byte{}
}

// SaveAnchorID tells what AnchorID is from now on. It is written as SaveLeases does.
func (f *File) SaveAnchorID(id [16]byte) error {
	if id == [16]byte{} {
		return fmt.Errorf("save interface id: it is null")
	}
	f.change(func() { f.id.anchor = id })
	return nil
}

// Subnet is the network's IPv4 subnet, masked, false when none is known.
func (f *File) Subnet() (netip.Prefix, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id.subnet, f.id.subnet.IsValid()
}

// SaveSubnet tells what Subnet is from now on. It is written as SaveLeases does.
func (f *File) SaveSubnet(p netip.Prefix) error {
	if err := checkSubnet(p); err != nil {
		return fmt.Errorf("save subnet: %w", err)
	}
	f.change(func() { f.id.subnet = p })
	return nil
}

// checkSubnet tells why p is not the subnet of a network.
func checkSubnet(p netip.Prefix) error {
	a := p.Addr()
	if !a.Is4() || p != p.Masked() || p.Bits() < minSubnetBits || p.Bits() > maxSubnetBits ||
		a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.As4()[0] >= 240 {
		return fmt.Errorf("%s is not the subnet of a network", p)
	}
	return nil
}

// encode adds what is known to the fields of a file: "interface_id" and "subnet".
func (i identity) encode(top map[string]any) {
	if b := i.anchor; b != [16]byte{} {
		top[fieldID] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	if i.subnet.IsValid() {
		top[fieldSubnet] = i.subnet.String()
	}
}

// Names of the fields.
const (
	fieldID     = "interface_id"
	fieldSubnet = "subnet"
)

// decodeIdentity checks what encode wrote; an empty text is a field that is not there.
func decodeIdentity(id, subnet string) (i identity, err error) {
	if id != "" {
		if i.anchor, err = parseUUID(id); err != nil {
			return i, err
		}
	}
	if subnet != "" {
		if i.subnet, err = netip.ParsePrefix(subnet); err == nil {
			err = checkSubnet(i.subnet)
		}
		if err != nil {
			return i, fmt.Errorf("check subnet: %w", err)
		}
	}
	return i, nil
}

// parseUUID reads the form 01234567-89ab-cdef-0123-456789abcdef.
func parseUUID(s string) (id [16]byte, err error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		n, err := hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:]))
		if err == nil && n == len(id) && id != [16]byte{} {
			return id, nil
		}
	}
	return id, fmt.Errorf("check interface id: %q is not a UUID", cut([]byte(s)))
}
