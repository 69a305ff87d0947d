// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A sampler invents rounds of the shape that real ones have. They are the same each time.
type sampler struct {
	*rand.Rand
	all []rounds.Round
}

func newSampler() *sampler { return &sampler{Rand: rand.New(rand.NewPCG(1, 2))} }

// around is near x, as rounds are near each other.
func (s *sampler) around(x float64) float64 { return x * (0.93 + 0.1*s.Float64()) }

// sampleCost is what a frame costs a relay in this world, in nanoseconds.
func sampleCost(k rounds.Round) float64 {
	cost := 150 + 0.2*float64(k.Frame)
	switch k.Relay {
	case rounds.Floor, rounds.VmnetC:
		cost *= 0.9
	case rounds.Blind:
		cost *= 0.8
	case rounds.DaemonVmnet, rounds.DaemonLocal:
		cost *= 1.3
	case rounds.Old:
		cost = (2000 + 0.3*float64(k.Frame)) * float64(k.Clients)
	}
	if k.Sender == "single" {
		cost += 1000
	}
	if k.Transport != "stream" {
		cost *= 2.5
	}
	return cost
}

// flow adds rounds of frames.
func (s *sampler) flow(k rounds.Round) {
	for i := range 9 {
		r := k
		r.Round, r.Seconds, r.Direction = i, 0.3, rounds.ClientToClient
		r.CPUSeconds = math.Round(1e9*s.around(0.25)) / 1e9
		r.Frames = uint64(1e9 * r.CPUSeconds / s.around(sampleCost(k)))
		r.Bytes = r.Frames * uint64(k.Frame)
		r.Voluntary, r.Involuntary = r.Frames/100, r.Frames/700
		s.all = append(s.all, r)
	}
}

// trips adds rounds of round trips.
func (s *sampler) trips(k rounds.Round) {
	for i := range 9 {
		r := k
		r.Round, r.Seconds, r.Direction, r.Trips = i, 0.5, rounds.ClientToClient, 10000
		cost := 30 * sampleCost(k)
		if k.Active > 2 {
			cost *= 8
		}
		r.P50, r.P99, r.P999 = int64(s.around(cost)), int64(s.around(3*cost)), int64(s.around(9*cost))
		s.all = append(s.all, r)
	}
}

// transfer adds rounds of TCP.
func (s *sampler) transfer(k rounds.Round, gbit float64) {
	for i := range 3 {
		r := k
		r.Round, r.Seconds, r.Sender = i, 2, "tcp"
		r.Bytes = uint64(s.around(gbit * 2e9 / 8))
		r.Frames, r.Retransmits = r.Bytes/uint64(k.Frame), uint64(s.IntN(5))
		if k.Relay != rounds.Direct {
			r.CPUSeconds = math.Round(1e6*s.around(1.5)) / 1e6
		}
		s.all = append(s.all, r)
	}
}

// sampleBench is like what bench writes.
func sampleBench() rounds.File {
	s := newSampler()
	for _, sender := range []string{"single", "batch"} {
		for _, relay := range []string{rounds.Blind, rounds.Floor, rounds.Daemon, rounds.Old, rounds.DaemonVmnet, rounds.VmnetC, rounds.DaemonLocal} {
			s.flow(rounds.Round{Series: "pair", Setup: relay + " " + sender, Relay: relay, Transport: "stream", Sender: sender, Frame: 1514, Clients: 2, Active: 2})
		}
		for _, n := range []int{2, 4, 8, 16, 32, 64} {
			for _, relay := range []string{rounds.Daemon, rounds.Old} {
				s.flow(rounds.Round{Series: "scale-idle", Relay: relay, Transport: "stream", Sender: sender, Frame: 1514, Clients: n, Active: 2})
			}
		}
	}
	s.flow(rounds.Round{Series: "datagrams", Relay: rounds.Daemon, Transport: "stream/passed", Sender: "batch", Frame: 1514, Clients: 2, Active: 2})
	s.flow(rounds.Round{Series: "deaf", Relay: rounds.Daemon, Transport: "stream", Sender: "batch", Frame: 1514, Clients: 5, Active: 4})
	s.flow(rounds.Round{Series: "vmnet", Relay: rounds.DaemonVmnet, Transport: "stream", Sender: "batch", Frame: 1514, Clients: 2, Active: 2})
	s.flow(rounds.Round{Series: "vmnet", Relay: rounds.VmnetC, Transport: "stream", Sender: "batch", Frame: 1514, Clients: 2, Active: 2})
	for _, size := range []int{64, 256, 1514, 4096, 9000, 65550} {
		for _, transport := range []string{"stream", "passed", "path", "connected"} {
			for _, relay := range []string{rounds.Floor, rounds.Daemon} {
				s.flow(rounds.Round{Series: "sizes", Relay: relay, Transport: transport, Sender: "batch", Frame: size, Clients: 2, Active: 2})
			}
		}
		s.flow(rounds.Round{Series: "sizes", Relay: rounds.Old, Transport: "stream", Sender: "batch", Frame: size, Clients: 2, Active: 2})
	}
	for _, pairs := range []int{1, 2, 4, 8, 16, 32} {
		for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			s.flow(rounds.Round{Series: "scale-active", Relay: relay, Transport: "stream", Sender: "batch", Frame: 1514, Clients: 2 * pairs, Active: 2 * pairs})
		}
	}
	for _, active := range []int{2, 4} {
		for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			s.trips(rounds.Round{Series: "latency", Relay: relay, Transport: "stream", Sender: "single", Frame: 64, Clients: active, Active: active})
		}
	}
	for i := range 10 {
		s.all = append(s.all,
			rounds.Round{Series: "start", Relay: rounds.Daemon, Round: i, Seconds: math.Round(1e6*s.around(0.02)) / 1e6},
			rounds.Round{Series: "memory", Relay: rounds.Daemon, Round: i, Seconds: 1, Transport: "stream", Clients: 8, Active: 8, MemoryKiB: uint64(s.around(12000))},
			rounds.Round{Series: "idle", Relay: rounds.Daemon, Round: i, Seconds: 10, Transport: "stream", Clients: 8})
	}
	return sampleFile("go run ./test/bench --json docs/performance/raw/bench.json", s.all)
}

// sampleGuests is like what perf.sh writes of virtual machines.
func sampleGuests() rounds.File {
	s := newSampler()
	k := rounds.Round{Series: "machines", Relay: rounds.Daemon, Transport: "stream", Direction: rounds.HostToClient, Frame: 1514, Clients: 2, Active: 1}
	s.transfer(k, 1)
	for side, relay := range []string{rounds.Old, rounds.Daemon} {
		k.Series, k.Relay, k.Setup = "old-new", relay, "shared-qemu-2/host-to-vm/"+[]string{"old", "new"}[side]
		s.transfer(k, 1+0.5*float64(side))
	}
	return sampleFile("test/perf.sh run -v qemu", s.all)
}

// sampleFake is like what perf.sh writes of fake VMs.
func sampleFake() rounds.File {
	s := newSampler()
	for _, size := range []int{1514, 9014, 65014} {
		s.transfer(rounds.Round{
			Series: "tcp", Setup: "tcp veth", Relay: rounds.Direct, Direction: rounds.ClientToClient, Frame: size, Clients: 2, Active: 2,
		}, 30)
		for i, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			s.transfer(rounds.Round{
				Series: "tcp", Setup: "tcp " + relay + " stream single", Relay: relay, Transport: "stream",
				Direction: rounds.ClientToClient, Frame: size, Clients: 2, Active: 2,
			}, float64(size)/1000-0.2*float64(i))
		}
		s.transfer(rounds.Round{
			Series: "tcp", Setup: "tcp daemon stream batch ", Relay: rounds.Daemon, Transport: "stream",
			Direction: rounds.ClientToClient, Frame: size, Clients: 2, Active: 2,
		}, 12)
	}
	for _, direction := range []string{rounds.ClientToHost, rounds.HostToClient} {
		s.transfer(rounds.Round{Series: "gateway", Relay: rounds.Daemon, Transport: "stream", Direction: direction, Frame: 1514, Clients: 1, Active: 1}, 2)
		s.transfer(rounds.Round{Series: "gateway", Relay: rounds.Gvproxy, Transport: "stream", Direction: direction, Frame: 1514, Clients: 1, Active: 1}, 1.9)
	}
	for _, active := range []int{2, 4} {
		for _, relay := range []string{rounds.Floor, rounds.Daemon, rounds.Old} {
			s.trips(rounds.Round{Series: "tcp-latency", Relay: relay, Transport: "stream", Sender: "tcp", Frame: 1514, Clients: active, Active: active})
		}
	}
	return sampleFile("test/perf.sh fake", s.all)
}

func sampleFile(command string, all []rounds.Round) rounds.File {
	return rounds.File{Version: rounds.Version, Command: command, Rounds: all, Machine: rounds.Machine{
		CPU: "a <fast> | processor", Cores: 2, OS: "linux", Kernel: "Linux 6.1", Go: "go1.26", CC: "gcc 12", Commit: "0123abc-dirty",
		Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LoadBegin: "0.10", LoadEnd: "0.20",
	}}
}
