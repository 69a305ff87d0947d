// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// TestTable: the table fits on the narrowest usual terminal on a slow machine as well, and what to do next stands below it.
func TestTable(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond / 3, 99900 * time.Microsecond, 9 * time.Second} {
		d := &demo{bin: "bin", socket: "/tmp/s"}
		d.attach()
		for i := range d.vms {
			v := &d.vms[i]
			v.lease, v.gateway, v.peer, v.fetch = lab.Lease{IP: "192.168.105.253", Bits: "24"}, took, took, took
		}
		text := d.table()
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, len(strings.TrimRight(line, " \n")), 80, "%s", line)
		}
		assert.True(t, strings.HasSuffix(text, "\nNow start your own: bin/socket_vmnet2 try\n"), text)
	}
}
