// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// A network is the guest's connection.
type network struct {
	file  *os.File // the connected datagram socket
	reply proto.Reply
	way   string

	lifeline net.Conn // its end is that of the connection
	watcher  sync.WaitGroup
}

// connect gets a datagram socket that leads to the daemon's network.
func connect(ctx context.Context, o options) (*network, error) {
	r := proto.Request{Transport: proto.Datagram, Name: o.name, MAC: o.mac}
	n := &network{way: o.transport}
	var lifeline *os.File
	if o.transport == byAttach {
		a, err := client.Attach(ctx, o.socket, r)
		if err != nil {
			return nil, err
		}
		n.file, n.reply, lifeline = a.File, a.Reply, a.Lifeline
	} else {
		ours, theirs, err := proto.Pair(proto.Datagram)
		if err != nil {
			return nil, err
		}
		n.file = os.NewFile(uintptr(ours), "link")
		passed := os.NewFile(uintptr(theirs), "passed link")
		r.Wait = true
		a, err := client.Adopt(ctx, o.socket, passed, &r)
		if err = errors.Join(err, passed.Close()); err != nil {
			return nil, errors.Join(err, n.file.Close())
		}
		n.reply, lifeline = a.Reply, a.Lifeline
	}
	var err error
	n.lifeline, err = net.FileConn(lifeline)
	if err = errors.Join(err, lifeline.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("use the lifeline: %w", err), n.file.Close())
	}
	return n, nil
}

// watch calls ended once when the daemon ends the connection, unless we do it first.
func (n *network) watch(ended func()) {
	n.watcher.Go(func() {
		b := make([]byte, 64)
		for {
			if _, err := n.lifeline.Read(b); err != nil {
				if !errors.Is(err, net.ErrClosed) {
					ended()
				}
				return
			}
		}
	})
}

// close ends the connection.
func (n *network) close() {
	_ = n.lifeline.Close()
	n.watcher.Wait()
	_ = n.file.Close()
}

// describe is the line that tells what the guest is connected to: words of the form key=value.
func (n *network) describe(mac net.HardwareAddr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mac=%s transport=%s backend=%s mode=%s", mac, n.way, n.reply.Backend, n.reply.Mode)
	for _, o := range []struct{ key, value string }{
		{"interface", n.reply.Interface}, {"gateway", n.reply.Gateway}, {"interface_id", n.reply.InterfaceID},
	} {
		if o.value != "" {
			fmt.Fprintf(&b, " %s=%s", o.key, o.value)
		}
	}
	if n.reply.MTU != 0 {
		fmt.Fprintf(&b, " mtu=%d", n.reply.MTU)
	}
	return b.String()
}
