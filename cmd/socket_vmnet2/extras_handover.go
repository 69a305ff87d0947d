// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing"
	"github.com/socket-vmnet2/socket_vmnet2/internal/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/unixgram"
)

// extrasSection is where the extras are in the manifest, if there are any.
const extrasSection = "extras"

// savedExtras are the extras for the program that takes the daemon's place. Listeners are descriptors.
type savedExtras struct {
	Dir     rundir.Saved   `json:"dir"`
	Attach  int            `json:"attach"`
	Adopt   int            `json:"adopt"`
	Control int            `json:"control"`                // -1: there is none
	Root    int            `json:"control_root,omitempty"` // 0: there is none, as before there were such
	Dgram   unixgram.Saved `json:"dgram"`
	Passing passing.Saved  `json:"passing"`
}

// pauseRequests has no client come or go by a passed descriptor. Requests under way are finished first, for which frames
// have to move. It may be called on nil, like the others.
func (e *extras) pauseRequests() {
	if e != nil {
		e.passing.Pause()
	}
}

// pauseFrames leaves datagrams in the shared socket.
func (e *extras) pauseFrames() {
	if e != nil {
		e.shared.Pause()
	}
}

// resume undoes both.
func (e *extras) resume() {
	if e != nil {
		e.shared.Resume()
		e.passing.Resume()
	}
}

// save notes what the new program needs of the extras and of c, whose socket is in their directory.
func (e *extras) save(o *handoff.Out, c *controller) (err error) {
	if e == nil {
		return nil
	}
	v := savedExtras{Control: -1}
	if v.Dir, err = e.dir.Save(o); err != nil {
		return err
	}
	if v.Attach, err = o.Conn(e.attach); err != nil {
		return err
	}
	if v.Adopt, err = o.Conn(e.adopt); err != nil {
		return err
	}
	if c != nil {
		if v.Control, err = o.Conn(c.ln); err != nil {
			return err
		}
		if c.root != nil {
			if v.Root, err = o.Conn(c.root); err != nil {
				return err
			}
		}
	}
	v.Dgram = e.shared.Save(o)
	v.Passing = e.passing.Save(o)
	return o.Put(extrasSection, v)
}

// takeExtras takes the extras over, with their clients; nil when there are none, or when they cannot be, which the log tells
// and costs their clients only. The control socket is among what was saved.
func takeExtras(d *daemon, in *handoff.In) (*extras, savedExtras) {
	none, v := savedExtras{Control: -1}, savedExtras{}
	err := in.Get(extrasSection, &v)
	if errors.Is(err, handoff.ErrNoSection) {
		return nil, none
	}
	if err == nil {
		e := &extras{log: d.log, given: d.given}
		if err = e.take(d, in, &v); err == nil {
			return e, v
		}
		e.close(context.Background())
	}
	d.log.Warn("datagram clients and passed descriptors are lost in the upgrade", "error", err)
	return nil, none
}

// take fills e in. What it has taken is closed by close, also after an error.
func (e *extras) take(d *daemon, in *handoff.In, v *savedExtras) (err error) {
	if e.dir, err = rundir.Restore(in, v.Dir, e.log); err != nil {
		return err
	}
	if e.attach, err = in.UnixListener(v.Attach); err != nil {
		return fmt.Errorf("take over the socket attach: %w", err)
	}
	if e.adopt, err = in.UnixListener(v.Adopt); err != nil {
		return fmt.Errorf("take over the socket adopt: %w", err)
	}
	if e.shared, err = unixgram.Restore(e.sharedOptions(d), in, v.Dgram); err != nil {
		return err
	}
	e.passing = passing.Restore(e.passingOptions(d), in, v.Passing)
	return nil
}

// takeControl takes the control sockets over; nil when there are none. A daemon that had none for root gets it now.
func takeControl(in *handoff.In, e *extras, v savedExtras, o control.Options) *controller {
	if v.Control < 0 {
		return nil
	}
	ln, err := in.UnixListener(v.Control)
	if err != nil {
		o.Log.Warn("the daemon cannot be asked or upgraded, it does its work", "error", err)
		return nil
	}
	if v.Root == 0 {
		return newController(ln, e.listenRoot(), o)
	}
	root, err := in.UnixListener(v.Root)
	if err != nil {
		o.Log.Warn("root and the daemon's user share the control socket with its group", "error", err)
	}
	return newController(ln, root, o)
}
