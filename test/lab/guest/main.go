// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command guest is the helper program in the end-to-end tests' guests, for what busybox cannot do.
//
//	guest load IFACE MAC BYTES              send numbered frames of BYTES bytes to MAC as fast as the interface takes them
//	guest pace IFACE MAC BYTES MICROSECONDS the same, one frame every MICROSECONDS
//	guest watch IFACE                       follow the numbered frames that arrive and tell about them on 127.0.0.1:5002
//	guest verify PORT                       take TCP connections from pump and check every byte; prints how it goes
//	guest pump HOST:PORT MBIT               send to verify over one connection, MBIT a second or, for 0, all it takes; prints
//	                                        how it goes, the longest stall among it
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Printf("guest: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("read arguments: no command")
	}
	commands := map[string]struct {
		args int
		run  func(a []string) error
	}{
		"load": {3, func(a []string) error { return load(a[0], a[1], number(a[2]), 0) }},
		"pace": {4, func(a []string) error {
			return load(a[0], a[1], number(a[2]), time.Duration(number(a[3]))*time.Microsecond)
		}},
		"watch":  {1, func(a []string) error { return watch(a[0]) }},
		"verify": {1, func(a []string) error { return verify(a[0]) }},
		"pump":   {2, func(a []string) error { return pump(a[0], number(a[1])) }},
	}
	c, ok := commands[args[0]]
	if !ok || len(args)-1 != c.args {
		return fmt.Errorf("read arguments %q: unknown command or wrong number of arguments", args)
	}
	return c.run(args[1:])
}

// number is s as a number, 0 when it is none: the tests write the arguments.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
