// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// A stickySocket is a UDP socket on all addresses of the host that answers from the one it was asked at: otherwise the host
// would choose, and the client drop what comes from an address that it has not asked.
type stickySocket struct {
	*net.UDPConn
	oob [64]byte // touched by the reader only
}

// newStickySocket asks the kernel to tell where datagrams were sent to. Without that the socket works all the same on hosts
// with one address.
func newStickySocket(c *net.UDPConn) *stickySocket {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1) })
	}
	return &stickySocket{UDPConn: c}
}

// read returns a datagram's length, its sender, and the address of the host it was sent to.
func (s *stickySocket) read(b []byte) (n int, from netip.AddrPort, at netip.Addr, err error) {
	n, oobn, _, from, err := s.ReadMsgUDPAddrPort(b, s.oob[:])
	if err != nil {
		return 0, from, at, err
	}
	messages, _ := syscall.ParseSocketControlMessage(s.oob[:oobn])
	for _, m := range messages {
		if m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == syscall.IP_PKTINFO && len(m.Data) >= syscall.SizeofInet4Pktinfo {
			at = netip.AddrFrom4([4]byte(m.Data[4:8])) // ipi_spec_dst
		}
	}
	return n, from, at, nil
}

// write sends b from the host's address at, the host's choice if that is zero.
func (s *stickySocket) write(b []byte, to netip.AddrPort, at netip.Addr) error {
	var oob []byte
	if at.Is4() {
		oob = make([]byte, syscall.CmsgSpace(syscall.SizeofInet4Pktinfo))
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&oob[0]))
		h.Level, h.Type = syscall.IPPROTO_IP, syscall.IP_PKTINFO
		h.SetLen(syscall.CmsgLen(syscall.SizeofInet4Pktinfo))
		binary.NativeEndian.PutUint32(oob[syscall.CmsgLen(0):], 0) // ipi_ifindex: any
		copy(oob[syscall.CmsgLen(4):], at.AsSlice())
	}
	_, _, err := s.WriteMsgUDPAddrPort(b, oob, to)
	return err
}
