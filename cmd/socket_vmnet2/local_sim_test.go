// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestSwitchedLocally: clients whose frames vmnet does not take from one to the other reach each other with local switching,
// and what goes from one to the other does not come to vmnet. It runs in TestOnSimulatorLocally's process.
func TestSwitchedLocally(t *testing.T) {
	if !locally {
		return
	}
	sock := socketPath(t)
	c := simulated(t, sock)
	c.Set(vmnetsim.NoUnicast, 1)
	c.Set(vmnetsim.MaxInterfaces, 3) // two clients have one of their own, two share
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	var clients []*client
	for i := range byte(4) {
		clients = append(clients, p.dial(t, 10+i))
	}
	for _, one := range clients {
		one.send(99, "here I am") // to nobody
	}
	mesh(t, clients)
	before := c.Gauges().FramesIn
	for range 10 {
		for i, a := range clients {
			a.reaches(clients[(i+1)%len(clients)])
		}
	}
	assert.Less(t, c.Gauges().FramesIn-before, int64(40), "of the 40 and what else there is")
}
