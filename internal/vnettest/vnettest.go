// SPDX-License-Identifier: Apache-2.0

// Package vnettest tests networks: a conformance suite that every vnet.Network passes (TestNetwork) and a fake guest with
// ARP, ping, DHCP and UDP that runs over a client's socket or over a port (Guest).
package vnettest
