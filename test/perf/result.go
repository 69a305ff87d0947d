// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A use is what a daemon needed for one transfer: what is written beside iperf3's result. Null is what could not be
// measured.
type use struct {
	Daemon   string `json:"daemon"` // as it was named
	Relay    string `json:"relay"`  // which kind it is, as in rounds.json
	System   string `json:"system"` // linux, darwin
	Machines string `json:"machines"`

	Seconds       float64 `json:"seconds"` // of the transfer, as the next three by iperf3
	Bytes         uint64  `json:"bytes"`   // of payload
	BitsPerSecond float64 `json:"bits_per_second"`
	Retransmits   *uint64 `json:"retransmits"`

	CPUSeconds    *float64 `json:"cpu_seconds"`            // user and system
	CPUResolution float64  `json:"cpu_resolution_seconds"` // what CPUSeconds is exact to
	CPUPerGB      *float64 `json:"cpu_seconds_per_gb"`     // GB: 10^9 bytes of payload
	MbitPerCPU    *float64 `json:"mbit_per_second_per_percent_cpu"`

	Voluntary   *uint64 `json:"voluntary_switches"`
	Involuntary *uint64 `json:"involuntary_switches"`
	ResidentKiB *uint64 `json:"resident_kib"`  // at the end
	AnonKiB     *uint64 `json:"anonymous_kib"` // at the end; without what is shared with the program's file
	Drops       *uint64 `json:"drops"`         // frames, by the daemon's log

	Source string `json:"source"` // of what is known about the process: /proc, ps
	Note   string `json:"note,omitempty"`
}

// A result is one measurement.
type result struct {
	direction string
	side      string // old or new, in a comparison
	daemon    *daemon
	iperf     []byte // as iperf3 printed it
	transfer  transfer
	use       use
}

// difference is what the daemon needed between two looks at it. err says why there were none.
func (r *result) difference(before, after consumption, err error) use {
	received := r.transfer.End.Received
	u := use{
		Daemon: r.daemon.name, Relay: r.daemon.relay, Seconds: received.Seconds, Bytes: received.Bytes,
		BitsPerSecond: received.BitsPerSecond, Retransmits: r.transfer.End.Sent.Retransmits,
	}
	cpu := after.cpu - before.cpu
	if err == nil && cpu < 0 {
		err = fmt.Errorf("process %d is another one than before", r.daemon.pid)
	}
	if err != nil {
		u.Note = "what the daemon needed was not measured: " + err.Error()
		return u
	}
	u.Source, u.CPUResolution, u.CPUSeconds = after.source, after.resolution, &cpu
	// A difference of two readings is off by up to one step.
	if cpu < 10*after.resolution {
		u.Note = "the daemon's processor time is near the resolution of its measurement: measure longer with -t"
	}
	if cpu > 0 {
		perGB, perPercent := cpu/(float64(u.Bytes)/1e9), u.BitsPerSecond/1e6/(100*cpu/u.Seconds)
		u.CPUPerGB, u.MbitPerCPU = &perGB, &perPercent
	}
	u.Voluntary, u.Involuntary = minus(after.voluntary, before.voluntary), minus(after.involuntary, before.involuntary)
	u.ResidentKiB, u.AnonKiB = after.residentKiB, after.anonKiB
	return u
}

// minus is a - b. Threads that have ended in between took their counts with them: then it is 0 at least.
func minus(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - min(*a, *b)
	return &d
}

// write puts a result into p: iperf3's as it is, and what the daemon needed beside it.
func (r *result) write(p *part, name string) error {
	if err := p.write(name+".json", r.iperf); err != nil {
		return err
	}
	return p.writeJSON(name+useSuffix, r.use)
}

// useSuffix ends the names of files with a use.
const useSuffix = ".daemon.json"

func (r *result) summary() string {
	s := fmt.Sprintf("%.3f Gbit/s, %s retransmits", r.use.BitsPerSecond/1e9, count(r.use.Retransmits))
	if r.use.CPUPerGB != nil {
		s += fmt.Sprintf(", daemon %.2f s of CPU per GB", *r.use.CPUPerGB)
	}
	if r.use.Note != "" {
		s += "; " + r.use.Note
	}
	return s
}

// round is the result as package rounds has it, with the names of series and set-up still missing. clients is the number of
// machines.
func (r *result) round(clients int) rounds.Round {
	u := r.use
	out := rounds.Round{
		Relay: r.daemon.relay, Transport: "stream", Sender: "tcp", Frame: 1514, Clients: clients, Active: 1,
		Seconds: u.Seconds, Bytes: u.Bytes, Drops: value(u.Drops), Retransmits: value(u.Retransmits),
		CPUSeconds: value(u.CPUSeconds), Voluntary: value(u.Voluntary), Involuntary: value(u.Involuntary), MemoryKiB: value(u.AnonKiB),
	}
	if u.Machines == vzguest {
		out.Transport = "passed"
	}
	switch r.direction {
	case hostToVM:
		out.Direction = rounds.HostToClient
	case vmToHost:
		out.Direction = rounds.ClientToHost
	default:
		out.Direction, out.Active = rounds.ClientToClient, 2
	}
	return out
}

// value is *p, 0 for nil, which is how package rounds writes what was not measured.
func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
