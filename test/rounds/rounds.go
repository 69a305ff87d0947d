// SPDX-License-Identifier: Apache-2.0

// Package rounds is the format of what a performance run leaves behind: the machine and every raw round. bench and perf write
// it, report draws from it, and nothing but such files is the source of a figure in docs/performance.
package rounds

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Version is that of the format. A reader refuses others.
const Version = 1

// A File is one run.
type File struct {
	Version int     `json:"version"`
	Command string  `json:"command"` // that makes such a file again, from the top of the repository
	Machine Machine `json:"machine"`
	Rounds  []Round `json:"rounds"`
}

// A Machine is where and when a run was made, and of which commit.
type Machine struct {
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	OS        string    `json:"os"` // linux, darwin
	Kernel    string    `json:"kernel"`
	Go        string    `json:"go"`
	CC        string    `json:"cc,omitempty"`
	Programs  []string  `json:"programs,omitempty"` // others that took part, with their versions: "iperf 3.12"
	Commit    string    `json:"commit"`             // as git describe --always --dirty has it
	Date      time.Time `json:"date"`
	LoadBegin string    `json:"load_begin"` // average of the last minute
	LoadEnd   string    `json:"load_end"`
}

// The kinds of relays that are measured.
const (
	Daemon        = "daemon"         // with the embedded network
	DaemonVmnet   = "daemon-vmnet"   // with interfaces of the simulated vmnet.framework
	DaemonLocal   = "daemon-local"   // the same with --local-switching=on
	DaemonMachrun = "daemon-machrun" // the program for macOS under test/machrun, with interfaces of the simulated vmnet.framework
	VmnetC        = "vmnet-c"        // a C program on the simulated vmnet.framework
	Floor         = "floor"          // C: the least a bridge has to do
	Blind         = "blind"          // C: a copy from one client to the other, unread
	Old           = "old"            // C: the stand-in for socket_vmnet, which floods a frame at a time
	SocketVmnet   = "socket_vmnet"   // the real one, on macOS
	DaemonMac     = "daemon-macos"   // the daemon with interfaces of the real vmnet.framework
	Gvproxy       = "gvproxy"        // gvisor-tap-vsock's own program
	Direct        = "veth"           // no relay: a veth pair, the kernel's own limit
)

// The directions of a flow.
const (
	ClientToClient = "client-to-client"
	ClientToHost   = "client-to-host"
	HostToClient   = "host-to-client"
)

// A Round is one measurement of one set-up. What does not apply or was not measured is 0.
type Round struct {
	Series    string `json:"series"`    // which question it belongs to: pair, sizes, scale-idle, scale-active, latency, ...
	Setup     string `json:"setup"`     // names the set-up within the file
	Round     int    `json:"round"`     // from 0
	Relay     string `json:"relay"`     // one of the kinds above
	Transport string `json:"transport"` // of the clients: stream, passed, path, connected; both sides with a slash between if they differ
	Sender    string `json:"sender"`    // single: a frame a write, as QEMU; batch: several; tcp: a kernel's stack
	Direction string `json:"direction"`
	Frame     int    `json:"frame_bytes"` // for tcp the interfaces' MTU + 14
	Clients   int    `json:"clients"`     // attached, active and idle
	Active    int    `json:"active"`      // of them with traffic

	Seconds     float64 `json:"seconds"`
	Frames      uint64  `json:"frames,omitempty"` // that arrived; for tcp as the receiving interface counts them
	Bytes       uint64  `json:"bytes,omitempty"`  // that arrived: frames with their Ethernet header; for tcp the payload
	Drops       uint64  `json:"drops,omitempty"`
	Retransmits uint64  `json:"retransmits,omitempty"`

	CPUSeconds  float64 `json:"cpu_seconds,omitempty"`          // of the relay, user and system
	Voluntary   uint64  `json:"voluntary_switches,omitempty"`   // of the relay's threads: each ends in a wake-up
	Involuntary uint64  `json:"involuntary_switches,omitempty"` //
	MemoryKiB   uint64  `json:"memory_kib,omitempty"`           // anonymous memory of the relay (RssAnon) at the end

	Trips uint64 `json:"round_trips,omitempty"`
	P50   int64  `json:"rtt_p50_ns,omitempty"`
	P99   int64  `json:"rtt_p99_ns,omitempty"`
	P999  int64  `json:"rtt_p999_ns,omitempty"`
}

// Write puts f into a file, whole or not at all.
func Write(path string, f File) error {
	f.Version = Version
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("encode the rounds: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory for the rounds: %w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the rounds: %w", err)
	}
	return os.Rename(part, path)
}

// Read reads a file that Write wrote. A file that is cut short, has another version or no rounds is an error.
func Read(path string) (File, error) {
	var f File
	b, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("read rounds: %w", err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("read rounds of %s, which may be cut short: measure again: %w", path, err)
	}
	if f.Version != Version {
		return f, fmt.Errorf("read rounds of %s: it has version %d, this program knows %d: measure again", path, f.Version, Version)
	}
	if len(f.Rounds) == 0 {
		return f, fmt.Errorf("read rounds of %s: %w", path, errors.New("there are none: measure again"))
	}
	return f, nil
}
