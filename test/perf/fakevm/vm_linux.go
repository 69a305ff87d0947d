// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// device is the guests' interface.
const device = "eth0"

func guestMAC(i int) string { return fmt.Sprintf("52:54:00:fa:ce:%02x", i+1) }

// startGuest attaches fake VM i to the relay and returns once it can be reached. It and its interface end when it is killed.
func (l *lab) startGuest(i int, s setup, socket string) (*process, error) {
	args := []string{s.transport, s.sender, strconv.Itoa(s.mtu), guestAddress(i), guestMAC(i)}
	switch s.transport {
	case path:
		args = append(args, socket+".d/dgram/sock", l.path("c"))
	case passed:
		args = append(args, socket+".d/attach")
	default:
		args = append(args, socket)
	}
	g, err := l.guests[i].start(job{program: l.vm, piped: true, args: args})
	if err != nil {
		return nil, err
	}
	if err := g.ready(); err != nil {
		g.kill()
		return nil, err
	}
	return g, nil
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
	guests []*process
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
	socket := sc.relay.socket
	if !until(ctx, func() bool { return exists(socket) || sc.relay.alive() != nil }) {
		return nil, errors.Join(ctx.Err(), sc.relay.failed("has made no socket"), sc.close())
	}
	for i := range s.clients {
		if err := sc.relay.alive(); err != nil {
			return nil, errors.Join(err, sc.close())
		}
		g, err := l.startGuest(i, s, socket)
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
		g.kill()
	}
	return errors.Join(errs...)
}
