// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// InetAton reads an IPv4 address by the rules of C's inet_aton, which is what socket_vmnet checks --vmnet-gateway with:
// one to four parts of decimal, octal (leading 0) or hexadecimal (leading 0x) numbers, the last of which fills all bytes
// that are left. So "192.168.105.1", "192.168.27137", "0xc0a86901" and "0300.0250.0151.01" are the same address.
// inet_aton ignores anything behind a white space; here that is an error, since vmnet, which is given the text, refuses it.
func InetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, p := range parts {
		n, ok := inetNumber(p)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if !ok || n >= 1<<bits {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(sum))
	return netip.AddrFrom4(b), true
}

// inetNumber reads one part with C's prefixes, which are some of Go's. A bare "0x" has no digit and is refused.
func inetNumber(p string) (uint64, bool) {
	if strings.Trim(p, "0123456789abcdefABCDEFxX") != "" || strings.HasPrefix(strings.ToLower(p), "0b") {
		return 0, false
	}
	n, err := strconv.ParseUint(p, 0, 32)
	return n, err == nil
}
