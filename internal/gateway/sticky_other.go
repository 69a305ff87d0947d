// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package gateway

import (
	"net"
	"net/netip"
)

// A stickySocket is a UDP socket on all addresses of the host. Here the host chooses the address it answers from, which is
// the one it was asked at if it has no other on that interface.
type stickySocket struct{ *net.UDPConn }

func newStickySocket(c *net.UDPConn) *stickySocket { return &stickySocket{c} }

// read returns a datagram's length and its sender.
func (s *stickySocket) read(b []byte) (n int, from netip.AddrPort, at netip.Addr, err error) {
	n, from, err = s.ReadFromUDPAddrPort(b)
	return n, from, at, err
}

// write sends b.
func (s *stickySocket) write(b []byte, to netip.AddrPort, _ netip.Addr) error {
	_, err := s.WriteToUDPAddrPort(b, to)
	return err
}
