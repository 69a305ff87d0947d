// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// device is the guests' interface.
const device = "eth0"

// A guest is an attached fake VM.
type guest struct {
	*process
	lifeline *client.Attached // of a passed descriptor
}

func guestMAC(i int) string { return fmt.Sprintf("52:54:00:fa:ce:%02x", i+1) }

// startGuest attaches fake VM i to the relay and returns once it can be reached.
func (l *lab) startGuest(ctx context.Context, i int, s setup, socket string) (*guest, error) {
	g := &guest{}
	j := job{program: l.vm, piped: true, args: []string{s.transport, s.sender, strconv.Itoa(s.mtu), guestAddress(i), guestMAC(i)}}
	switch s.transport {
	case stream:
		j.args = append(j.args, socket)
	case path, connected:
		j.args = append(j.args, socket+".d/dgram", l.path("c"))
	case passed:
		if err := g.attach(ctx, socket); err != nil {
			return nil, err
		}
		j.files = []*os.File{g.lifeline.File}
	}
	var err error
	if g.process, err = l.guests[i].start(j); err == nil {
		err = g.ready()
	}
	if err != nil {
		return nil, errors.Join(err, g.hangUp())
	}
	return g, nil
}

// attach asks the daemon for a descriptor, once it is there.
func (g *guest) attach(ctx context.Context, socket string) error {
	var err error
	until(ctx, func() bool {
		g.lifeline, err = client.Attach(ctx, socket, proto.Request{})
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("attach a fake VM: %w", err)
	}
	return nil
}

func (g *guest) hangUp() error {
	if g.lifeline == nil {
		return nil
	}
	return g.lifeline.Close()
}

// remove ends the fake VM, and so its interface.
func (g *guest) remove() error {
	g.kill()
	return g.hangUp()
}

// wire joins the first two guests with a pair of the kernel's, without a relay.
func (l *lab) wire(s setup) error {
	a, b := l.guests[0], l.guests[1]
	err := a.ip(fmt.Sprintf("link add %s type veth peer name %s netns %d", device, device, b.tid))
	for i, g := range []*space{a, b} {
		if err == nil {
			err = g.ip(fmt.Sprintf("link set %s address %s mtu %d up\naddress add %s/24 dev %s", device, guestMAC(i), s.mtu, guestAddress(i), device))
		}
	}
	return err
}

func (l *lab) unwire() error { return l.guests[0].ip("link delete " + device) }

// A scene is a relay with its fake VMs.
type scene struct {
	l      *lab
	relay  *relay // nil without one
	guests []*guest
}

// open starts a set-up. The caller must close the scene.
func (l *lab) open(ctx context.Context, s setup) (*scene, error) {
	sc := &scene{l: l}
	if s.relay == rounds.Direct {
		return sc, l.wire(s)
	}
	var err error
	if sc.relay, err = l.startRelay(ctx, s); err != nil {
		return nil, err
	}
	for i := range s.clients {
		g, err := l.startGuest(ctx, i, s, sc.relay.socket)
		if err != nil {
			return nil, errors.Join(err, sc.close())
		}
		sc.guests = append(sc.guests, g)
	}
	return sc, nil
}

// close ends everything. An error says that something had ended by itself.
func (sc *scene) close() error {
	if sc.relay == nil {
		return sc.l.unwire()
	}
	errs := []error{sc.relay.alive()}
	for _, g := range sc.guests {
		errs = append(errs, g.alive())
	}
	sc.relay.kill() // gvproxy ends with its guest, so the guests go last; nor does it end for SIGTERM
	for _, g := range sc.guests {
		errs = append(errs, g.remove())
	}
	return errors.Join(errs...)
}
