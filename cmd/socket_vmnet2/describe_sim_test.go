// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package main

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// TestDescribesVmnet: which way the network was made and why, and which clients have an interface of their own. It runs in
// TestOnSimulator's process.
func TestDescribesVmnet(t *testing.T) {
	if os.Getenv(simulatorEnv) == "" {
		return
	}
	sock := socketPath(t)
	c := simulated(t, sock)
	c.Set(vmnetsim.MaxInterfaces, 3) // one is the anchor
	p := launch(t, "socket_vmnet2", sock)
	p.ready(t)
	var clients []*client
	for i := range byte(4) {
		clients = append(clients, p.dial(t, 10+i))
		clients[i].send(99, "here I am")
		p.describes(t, func(s status.Status) bool {
			return len(s.Clients) == int(i)+1 && s.Clients[i].State == status.StateRunning && s.Clients[i].MACs == 1
		})
	}
	mesh(t, clients)
	s := p.describes(t, func(s status.Status) bool { // an answer may be a little old
		return !slices.ContainsFunc(s.Clients, func(c status.Client) bool { return c.ToNet.Frames < uint64(len(clients)) })
	})
	assert.Equal(t, "vmnet", s.Network.Backend)
	assert.Equal(t, status.NetworkRunning, s.Network.State)
	assert.True(t, s.Network.Subnet.IsValid())
	assert.Nil(t, s.Network.Usernet)
	v := s.Network.Vmnet
	if assert.NotNil(t, v) {
		assert.Contains(t, []string{"network", "interface"}, v.API)
		assert.NotEmpty(t, v.Why)
		assert.Equal(t, 2, v.Own)
		assert.Equal(t, 2, v.Shared)
		assert.Positive(t, v.Starts)
		assert.Positive(t, v.StartFailures)
		assert.NotEmpty(t, v.LastFailure)
	}
	for i, kind := range []string{status.InterfaceOwn, status.InterfaceOwn, status.InterfaceShared, status.InterfaceShared} {
		one := s.Clients[i]
		assert.Equal(t, kind, one.Interface.Kind)
		assert.NotEmpty(t, one.Interface.ID)
		assert.NotEmpty(t, one.Interface.MAC)
		assert.Equal(t, 1, one.MACs)
	}
	_ = clients[0].Close() // its interface becomes the third one's
	s = p.describes(t, func(s status.Status) bool { return len(s.Clients) == 3 && s.Network.Vmnet.Own == 2 })
	assert.Equal(t, 1, s.Network.Vmnet.Shared)
	p.describes(t, func(s status.Status) bool { return s.Clients[1].Interface.Kind == status.InterfaceOwn })
}
