// SPDX-License-Identifier: Apache-2.0

package freenet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
)

// routes reads the kernel's routes, of all its tables: a VPN may have one of its own.
func routes() ([]Conflict, error) {
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_INET)
	if err != nil {
		return nil, err
	}
	return parseRoutes(rib, interfaceName)
}

// parseRoutes reads an answer of rtnetlink:
//
//	family u8, length of the destination u8, of the source u8, TOS u8, table u8, protocol u8, scope u8, type u8, flags u32,
//	then attributes
//
// Only routes that lead somewhere count, not the host's own addresses, broadcasts and what is refused.
func parseRoutes(rib []byte, name func(index int) string) (list []Conflict, err error) {
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink's answer: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg ||
			m.Data[0] != syscall.AF_INET || m.Data[7] != syscall.RTN_UNICAST {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("rtnetlink's answer: %w", err)
		}
		dst, via := netip.IPv4Unspecified(), "several ways"
		for _, a := range attrs {
			switch {
			case a.Attr.Type == syscall.RTA_DST && len(a.Value) == 4:
				dst = netip.AddrFrom4([4]byte(a.Value))
			case a.Attr.Type == syscall.RTA_OIF && len(a.Value) == 4:
				via = name(int(binary.NativeEndian.Uint32(a.Value)))
			}
		}
		if p := netip.PrefixFrom(dst, int(m.Data[1])); p.IsValid() {
			list = append(list, Conflict{byRoute(via), p})
		}
	}
	return list, nil
}
