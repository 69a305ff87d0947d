// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// measure measures all set-ups interleaved, A B C and then C B A, so that a busy moment of the machine does not hit the same
// one each time.
func (l *lab) measure(ctx context.Context, setups []setup) (rounds.File, error) {
	f := rounds.File{Command: l.o.Command, Machine: thisMachine(ctx)}
	for round := range l.o.Rounds {
		l.o.progress("round %d of %d", round+1, l.o.Rounds)
		order := slices.Clone(setups)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			r, err := l.once(ctx, s)
			if err != nil {
				if ctx.Err() != nil {
					err = ctx.Err() // what was killed because of it is no news
				}
				return f, fmt.Errorf("measure %q: %w", s.name(), err)
			}
			r.Round = round
			f.Rounds = append(f.Rounds, r)
		}
	}
	f.Machine.LoadEnd = loadAverage()
	return f, nil
}

// once measures one set-up.
func (l *lab) once(ctx context.Context, s setup) (rounds.Round, error) {
	if err := ctx.Err(); err != nil {
		return rounds.Round{}, err
	}
	sc, err := l.open(ctx, s)
	if err != nil {
		return rounds.Round{}, err
	}
	r, err := sc.transfer(ctx, s)
	if closeErr := sc.close(); err == nil {
		err = closeErr
	}
	return r, err
}

// An end is where a flow begins or ends.
type end struct {
	space *space
	to    string // the address by which the other end reaches it
	port  int
}

// ends are those of the flow of a set-up.
func (l *lab) ends(s setup) (client, server end) {
	guest := end{l.guests[0], guestAddress(0), servicePort}
	host := end{l.host, alias, servicePort}
	switch s.direction {
	case rounds.ClientToHost:
		return guest, host
	case rounds.HostToClient:
		return host, end{guest.space, "127.0.0.1", forwardPort}
	}
	return guest, end{l.guests[1], guestAddress(1), servicePort}
}

// transfer sends for a while from one end of the flow to the other.
func (sc *scene) transfer(ctx context.Context, s setup) (rounds.Round, error) {
	r := rounds.Round{
		Series: s.series, Setup: s.name(), Relay: s.relay, Transport: s.transport, Sender: "tcp", Direction: s.direction,
		Frame: s.mtu + etherHeader, Clients: s.clients, Active: s.active(),
	}
	from, to := sc.l.ends(s)
	server, err := to.space.start(job{program: sc.l.iperf3, args: []string{"-s", "-1", "-p", strconv.Itoa(servicePort)}})
	if err != nil {
		return r, err
	}
	defer server.kill()
	if !until(ctx, func() bool { return to.space.listening(servicePort) || server.alive() != nil }) || server.alive() != nil {
		return r, errors.Join(ctx.Err(), server.failed("does not listen"))
	}
	account, err := sc.begin(s)
	if err != nil {
		return r, err
	}
	var out bytes.Buffer
	client, err := from.space.start(job{program: sc.l.iperf3, out: &out, args: []string{
		"-c", to.to, "-p", strconv.Itoa(to.port), "-t", strconv.Itoa(sc.l.o.Seconds), "-J", "--connect-timeout", "5000",
	}})
	if err != nil {
		return r, err
	}
	limit, cancel := context.WithTimeout(ctx, sc.l.o.duration()+patience)
	defer cancel()
	waitErr := client.wait(limit)
	t, err := parseIperf(out.Bytes())
	if err != nil {
		return r, errors.Join(err, waitErr)
	}
	r.Seconds, r.Bytes, r.Retransmits = t.seconds, t.bytes, t.retransmits
	return r, account.end(&r)
}

// An account is what there was before a transfer.
type account struct {
	sc     *scene
	before usage
	count  func() (uint64, error) // frames that have arrived, or left where the flow ends in no interface
	frames uint64
}

func (sc *scene) begin(s setup) (account, error) {
	a := account{sc: sc}
	in := sc.l.guests[0]
	if s.direction == rounds.ClientToClient {
		in = sc.l.guests[1]
	}
	a.count = func() (uint64, error) {
		received, sent, err := in.packets(device)
		if s.direction == rounds.ClientToHost {
			return sent, err
		}
		return received, err
	}
	var err error
	if a.frames, err = a.count(); err == nil && sc.relay != nil {
		a.before, err = usageOf(sc.relay.cmd.Process.Pid)
	}
	return a, err
}

// end books the difference.
func (a account) end(r *rounds.Round) error {
	frames, err := a.count()
	r.Frames = frames - a.frames
	if err != nil || a.sc.relay == nil {
		return err
	}
	u, err := usageOf(a.sc.relay.cmd.Process.Pid)
	r.CPUSeconds = u.cpu - a.before.cpu
	r.Voluntary, r.Involuntary = u.voluntary-a.before.voluntary, u.involuntary-a.before.involuntary
	r.MemoryKiB = u.memory
	return err
}
