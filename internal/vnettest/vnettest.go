// SPDX-License-Identifier: Apache-2.0

// Package vnettest tests networks: a conformance suite that every vnet.Network passes (TestNetwork), and the fake guests of
// fakeguest for the length of a test (Attach, Dial).
package vnettest
