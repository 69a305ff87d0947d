// SPDX-License-Identifier: Apache-2.0

package fakevm

import "github.com/socket-vmnet2/socket_vmnet2/test/rounds"

// An account is what there was before a flow.
type account struct {
	relay  *relay // nil without one
	before usage
	count  func() (uint64, error) // frames that have arrived, or left where the flow ends in no interface; 0: not known
	frames uint64
}

func (sc *scene) begin(s setup) (account, error) {
	in := sc.l.guests[0]
	if s.direction == rounds.ClientToClient {
		in = sc.l.guests[1]
	}
	a := account{relay: sc.relay, count: func() (uint64, error) {
		if s.sender == offload || s.relay == rounds.Direct {
			return 0, nil // the interface counts packets of many segments
		}
		received, sent, err := in.packets(device)
		if s.direction == rounds.ClientToHost {
			return sent, err
		}
		return received, err
	}}
	var err error
	if a.frames, err = a.count(); err == nil && a.relay != nil {
		a.before, err = usageOf(a.relay.cmd.Process.Pid)
	}
	return a, err
}

// end books the difference.
func (a account) end(r *rounds.Round) error {
	frames, err := a.count()
	r.Frames = frames - a.frames
	if err != nil || a.relay == nil {
		return err
	}
	u, err := usageOf(a.relay.cmd.Process.Pid)
	r.CPUSeconds = u.cpu - a.before.cpu
	r.Voluntary, r.Involuntary = less(u.voluntary, a.before.voluntary), less(u.involuntary, a.before.involuntary)
	r.MemoryKiB = u.memory
	return err
}

// less is a - b, or 0 where threads with much in b have ended since.
func less(a, b uint64) uint64 { return a - min(a, b) }
