// SPDX-License-Identifier: Apache-2.0

// Package vnettest tests networks: a conformance suite that every vnet.Network passes (TestNetwork), a running daemon as such
// a network, by each of its transports (DaemonNetwork), and the fake guests of fakeguest for the length of a test (Attach,
// Dial).
package vnettest
