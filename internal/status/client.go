// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"time"
)

// Transports of a Client.
const (
	Stream         = "stream"          // SOCKET
	Unixgram       = "unixgram"        // SOCKET.d/dgram/sock
	PassedDatagram = "passed-datagram" // SOCKET.d/attach or adopt
	PassedStream   = "passed-stream"   // SOCKET.d/attach or adopt
)

// States of a Client.
const (
	StateQuiet    = "quiet"    // it has sent nothing and has no port yet
	StateStarting = "starting" // its port is being started, for the first time or after a failure
	StateRunning  = "running"
	StateStalled  = "stalled" // it runs, and has not read for a while though frames wait
	StateLeaving  = "leaving" // the daemon is closing it
)

// Kinds of Interface.
const (
	InterfaceNone   = "none"   // the back end has none, or it has not started
	InterfaceOwn    = "own"    // one for this client
	InterfaceShared = "shared" // one for several clients
)

// A Client is one connection and the guest behind it.
type Client struct {
	ID        uint64 `json:"id"`
	Name      string `json:"name,omitempty"` // that it calls itself, sanitised
	Transport string `json:"transport"`
	Path      string `json:"path,omitempty"` // of a unixgram client's socket
	FD        int    `json:"fd"`             // as in the log; -1: none
	Peer      Peer   `json:"peer"`

	MAC      string     `json:"mac,omitempty"`
	IP       netip.Addr `json:"ip,omitzero"`
	IPSeen   time.Time  `json:"ip_seen,omitzero"`   // when it last said that it has IP, or a DHCP server did
	Hostname string     `json:"hostname,omitempty"` // as the guest calls itself to DHCP, sanitised
	DHCP     ClientDHCP `json:"dhcp"`

	State     string    `json:"state"`
	Error     string    `json:"error,omitempty"` // why it has no port, while that is tried again
	Connected time.Time `json:"connected"`
	Age       float64   `json:"age_s"`
	Interface Interface `json:"interface"`

	ToNet    Traffic `json:"to_net"`
	ToClient Traffic `json:"to_client"`
	Queue    Queue   `json:"queue"`
	MACs     int     `json:"macs"`      // addresses behind its port
	MACMoves uint64  `json:"mac_moves"` // addresses that came to its port from another one
}

// A Peer is the process at the other end, as far as the system tells.
type Peer struct {
	Known   bool   `json:"known"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	PID     int    `json:"pid,omitempty"`
	User    string `json:"user,omitempty"`
	Command string `json:"command,omitempty"` // of PID now, sanitised
}

// An Interface is what stands for the client on the network.
type Interface struct {
	Kind     string `json:"kind"`
	ID       string `json:"id,omitempty"`
	MAC      string `json:"mac,omitempty"`
	MTU      int    `json:"mtu_bytes,omitempty"`
	MaxFrame int    `json:"max_frame_bytes,omitempty"`
}

// A Queue is what waits for a client.
type Queue struct {
	Bytes int `json:"bytes"`
	Limit int `json:"limit_bytes"`
	// Stalled is for how long the client has taken nothing although something waits.
	Stalled float64 `json:"stalled_s"`
}

// ClientDHCP is what passed between the guest and the DHCP server.
type ClientDHCP struct {
	Discovers uint64 `json:"discovers"`
	Requests  uint64 `json:"requests"`
	Offers    uint64 `json:"offers"`
	Acks      uint64 `json:"acks"`
	Naks      uint64 `json:"naks"`
	// Waiting is for how long the guest has been asking without an answer; 0: it is not.
	Waiting float64 `json:"waiting_s"`
}
