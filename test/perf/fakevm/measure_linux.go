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
	f := rounds.File{Command: l.o.Command, Machine: l.machine(ctx)}
	for round := range l.o.Rounds {
		l.o.progress("round %d of %d", round+1, l.o.Rounds)
		order := slices.DeleteFunc(slices.Clone(setups), func(s setup) bool { return s.seldom() && round%2 == 1 })
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
	f.Machine.LoadEnd = rounds.LoadAverage()
	return f, nil
}

// once measures one set-up.
func (l *lab) once(ctx context.Context, s setup) (rounds.Round, error) {
	r := rounds.Round{
		Series: s.series, Setup: s.name(), Relay: s.relay, Transport: s.transport, Sender: "tcp", Direction: s.direction,
		Frame: s.mtu + etherHeader, Clients: s.clients, Active: s.active,
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	sc, err := l.open(ctx, s)
	if err != nil {
		return r, err
	}
	if s.series == SeriesLatency {
		err = sc.latency(ctx, s, &r)
	} else {
		err = sc.transfer(ctx, s, &r)
	}
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

func (l *lab) guest(i int) end { return end{l.guests[i], guestAddress(i), servicePort} }

// ends are those of the measured flow of a set-up.
func (l *lab) ends(s setup) (from, to end) {
	switch s.direction {
	case rounds.ClientToHost:
		return l.guest(0), end{l.host, alias, servicePort}
	case rounds.HostToClient:
		return end{l.host, "", 0}, end{l.guests[0], "127.0.0.1", forwardPort}
	}
	return l.guest(0), l.guest(1)
}

// serve starts a server and returns once it listens at servicePort.
func (e end) serve(ctx context.Context, program string, args ...string) (*process, error) {
	server, err := e.space.start(job{program: program, args: args})
	if err != nil {
		return nil, err
	}
	if !until(ctx, func() bool { return e.space.listening(servicePort) || server.alive() != nil }) || server.alive() != nil {
		server.kill()
		return nil, server.failed("does not listen")
	}
	return server, nil
}

// iperfServer is a server for one client.
func (l *lab) iperfServer(ctx context.Context, e end) (*process, error) {
	return e.serve(ctx, l.iperf3, "-s", "-1", "-p", strconv.Itoa(servicePort))
}

// iperfClient sends from one end to the other for so many seconds.
func (l *lab) iperfClient(from, to end, seconds int, out *bytes.Buffer) (*process, error) {
	return from.space.start(job{program: l.iperf3, out: out, args: []string{
		"-c", to.to, "-p", strconv.Itoa(to.port), "-t", strconv.Itoa(seconds), "-J", "--connect-timeout", "60000",
	}})
}

// transfer sends for a while from one end of the flow to the other.
func (sc *scene) transfer(ctx context.Context, s setup, r *rounds.Round) error {
	from, to := sc.l.ends(s)
	server, err := sc.l.iperfServer(ctx, to)
	if err != nil {
		return err
	}
	defer server.kill()
	account, err := sc.begin(s)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	client, err := sc.l.iperfClient(from, to, sc.l.o.Seconds, &out)
	if err != nil {
		return err
	}
	waitErr := client.wait(ctx, sc.l.o.duration()+patience)
	t, err := parseIperf(out.Bytes())
	if err != nil {
		return errors.Join(err, waitErr)
	}
	r.Seconds, r.Bytes, r.Retransmits = t.seconds, t.bytes, t.retransmits
	return account.end(r)
}

// latency measures round trips between the first two guests while all others send to each other.
func (sc *scene) latency(ctx context.Context, s setup, r *rounds.Round) error {
	l := sc.l
	for i := 2; i+1 < s.active; i += 2 {
		server, err := l.iperfServer(ctx, l.guest(i+1))
		if err != nil {
			return err
		}
		defer server.kill()
		client, err := l.iperfClient(l.guest(i), l.guest(i+1), maxSeconds, nil)
		if err != nil {
			return err
		}
		defer client.kill()
	}
	from, to := l.ends(s)
	server, err := to.serve(ctx, l.echo, "serve", strconv.Itoa(servicePort))
	if err != nil {
		return err
	}
	defer server.kill()
	account, err := sc.begin(s)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	client, err := from.space.start(job{program: l.echo, out: &out, args: []string{
		"ask", to.to, strconv.Itoa(to.port), strconv.FormatInt(l.o.duration().Milliseconds(), 10),
	}})
	if err != nil {
		return err
	}
	if err := client.wait(ctx, l.o.duration()+patience); err != nil {
		return err
	}
	if err := parseEcho(out.Bytes(), r); err != nil {
		return err
	}
	return account.end(r)
}
