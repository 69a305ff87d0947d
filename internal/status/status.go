// SPDX-License-Identifier: Apache-2.0

// Package status is the form in which a running daemon describes itself: what GET /v1/status answers with, and what status,
// metrics and doctor read; and text of it for people. What asks needs nothing of the daemon.
//
// Directions are the clients': "to net" is what a client sent, "to client" what was for it. Counters start with the daemon, or
// with the client, and survive an upgrade in place unless it says otherwise. Times are UTC. Lists are never null.
package status

import (
	"net/netip"
	"time"
)

// Format is the number of this form. New fields do not change it.
const Format = 1

// A Status describes a daemon at one moment.
type Status struct {
	Format  int       `json:"format"`
	Now     time.Time `json:"now"`
	Daemon  Daemon    `json:"daemon"`
	Network Network   `json:"network"`
	Clients []Client  `json:"clients"` // connected now, by ID
	Totals  Totals    `json:"totals"`
	Health  []Problem `json:"health"` // the worst first
}

// A Daemon is the process and how it was set up.
type Daemon struct {
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	UID        int       `json:"uid"`
	Program    string    `json:"program,omitempty"` // path, as an upgrade would start it
	Socket     string    `json:"socket"`            // absolute path
	RuntimeDir string    `json:"runtime_dir,omitempty"`
	StateFile  string    `json:"state_file,omitempty"` // empty: nothing is kept over a restart
	Pidfile    string    `json:"pidfile,omitempty"`
	Metrics    string    `json:"metrics,omitempty"` // address and port where Prometheus can ask
	Started    time.Time `json:"started"`
	Uptime     float64   `json:"uptime_s"`
	Upgrades   int       `json:"upgrades"` // in place, since the start
	LogLevel   string    `json:"log_level"`
	Log        string    `json:"log,omitempty"` // path of its file, or as Linux names what it is, such as "socket:[7]"
	MaxClients int       `json:"max_clients"`
	QueueSize  int       `json:"queue_size_bytes"` // of each client
	Captures   Captures  `json:"captures"`
}

// Captures are how many there are. The counters start with the process.
type Captures struct {
	Running int    `json:"running"`
	Started uint64 `json:"started"`
	Stalled uint64 `json:"stalled"` // ended because their readers took nothing
}

// States of a Network.
const (
	NetworkStarting = "starting"
	NetworkRunning  = "running"
	NetworkFailed   = "failed"
)

// A Network is what all clients are on. Addresses that there are none of are zero and left out.
type Network struct {
	State   string `json:"state"`
	Error   string `json:"error,omitempty"` // why it failed
	Backend string `json:"backend"`         // "usernet" or "vmnet"
	Mode    string `json:"mode"`            // "host", "shared" or "bridged"

	Subnet    netip.Prefix `json:"subnet,omitzero"`
	Gateway   netip.Addr   `json:"gateway,omitzero"`
	MTU       int          `json:"mtu_bytes,omitempty"`
	MaxFrame  int          `json:"max_frame_bytes,omitempty"`
	Interface string       `json:"interface,omitempty"` // of the host, in bridged mode
	Isolated  bool         `json:"isolated"`
	Offload   bool         `json:"offload"`
	AntiSpoof bool         `json:"anti_spoof"`

	DHCP    *DHCP    `json:"dhcp,omitempty"`    // nil: this network has no DHCP server
	Vmnet   *Vmnet   `json:"vmnet,omitempty"`   // with that back end, once it runs
	Usernet *Usernet `json:"usernet,omitempty"` // with that back end, once it runs
}

// DHCP is the range that is leased. What vmnet's server has leased is not known here: Size and the rest are 0 then.
type DHCP struct {
	Start netip.Addr `json:"start"`
	End   netip.Addr `json:"end"`
	// Size is how many addresses there are for guests that have none reserved, Leased how many of these are taken now.
	Size   int     `json:"size,omitempty"`
	Leased int     `json:"leased,omitempty"`
	Leases []Lease `json:"leases,omitempty"` // by address; of the embedded network
	// Requests that were not answered, by reason.
	Unanswered map[string]uint64 `json:"unanswered,omitempty"`
}

// A Lease is an address that the embedded network has given.
type Lease struct {
	IP       netip.Addr `json:"ip"`
	MAC      string     `json:"mac"`
	Hostname string     `json:"hostname,omitempty"` // as the guest calls itself, sanitised
	Name     string     `json:"name,omitempty"`     // by which the network's DNS, if it has one, knows it: the whole one, web.vmnet.internal
	Expires  time.Time  `json:"expires"`
	Reserved bool       `json:"reserved,omitempty"`
}

// Vmnet is what only vmnet.framework has.
type Vmnet struct {
	API         string `json:"api"` // "network" or "interface"
	Why         string `json:"why"` // that one
	InterfaceID string `json:"interface_id,omitempty"`
	Own         int    `json:"own"`    // clients with an interface of their own
	Shared      int    `json:"shared"` // clients that share one

	Starts        uint64 `json:"starts"` // of interfaces
	StartFailures uint64 `json:"start_failures"`
	Restarts      uint64 `json:"restarts"`
	Promoted      uint64 `json:"promoted"`
	Exhausted     uint64 `json:"exhausted_frames"`
	LastFailure   string `json:"last_failure,omitempty"`

	Wakes    uint64 `json:"wakes"` // times that the host woke up
	LastWake *Wake  `json:"last_wake,omitempty"`
}

// A Wake is what was found when the host had slept.
type Wake struct {
	At        time.Time `json:"at"`
	Slept     float64   `json:"slept"`     // seconds
	Restarted int       `json:"restarted"` // interfaces that had died, and were started again
}

// Usernet is what only the embedded network has.
type Usernet struct {
	HostAddress netip.Addr `json:"host_address,omitzero"` // under which guests reach the host's loopback

	TCPFlows int               `json:"tcp_flows"`
	UDPFlows int               `json:"udp_flows"`
	Drops    map[string]uint64 `json:"drops"` // by the gateway, by reason
	Forwards []Forward         `json:"forwards"`
	Gateway  Gateway           `json:"gateway"`
}

// Gateway is the process that has the network's DHCP, DNS and NAT. What only one that runs has is left out otherwise.
type Gateway struct {
	State    string `json:"state"`           // "starting", "running" or "restarting"
	Error    string `json:"error,omitempty"` // why the one before ended, until there is another
	Restarts uint64 `json:"restarts"`
	PID      int    `json:"pid,omitempty"`
	UID      int    `json:"uid"`
	User     string `json:"user,omitempty"`   // name of UID
	Rights   string `json:"rights,omitempty"` // why it has the daemon's
	Version  string `json:"version,omitempty"`
	Protocol int    `json:"protocol,omitempty"`
}

// A Forward leads a port of the host to a guest.
type Forward struct {
	Proto string `json:"proto"`
	Host  string `json:"host"`  // address and port
	Guest string `json:"guest"` // address and port
	Error string `json:"error,omitempty"`
}

// Totals are of all clients since the start, those that have left included.
type Totals struct {
	Connects uint64 `json:"connects"`
	Refused  uint64 `json:"refused"` // above --max-clients
	// Unserved are datagrams that were refused, at dgram/sock and at sockets that were handed over at adopt.
	Unserved []Refusal `json:"unserved"`
	ToNet    Traffic   `json:"to_net"`
	ToClient Traffic   `json:"to_client"`
}

// A Refusal counts what was not served for one reason, by this process.
type Refusal struct {
	Reason string    `json:"reason"`
	Count  uint64    `json:"count"`
	Last   time.Time `json:"last"`
	From   string    `json:"from,omitempty"`   // where the last one that was told of came from
	Advice string    `json:"advice,omitempty"` // and what to do about that
}

// Traffic counts frames one way. Bytes are those of the frames, without the prefix of a stream.
type Traffic struct {
	Frames uint64 `json:"frames"`
	Bytes  uint64 `json:"bytes"`
	// Drops are frames that went no further, by reason: drop_queue_full and so on. They are not among Frames where the link
	// dropped them, and they are where the network did.
	Drops map[string]uint64 `json:"drops"`
}

// Severities of a Problem.
const (
	Error   = "error"   // something does not work
	Warning = "warning" // something is about not to, or costs a lot
	Notice  = "notice"  // worth knowing
)

// CommandIndent begins a step of a Fix that is a command.
const CommandIndent = "    "

// Codes of problems, for programs. docs/status.md explains each.
const (
	NoDHCPAnswer     = "no-dhcp-answer"    // a guest asks and no server answers
	DHCPDisabled     = "dhcp-disabled"     // the same, and the network has no DHCP server
	PoolExhausted    = "pool-exhausted"    // all addresses are leased, or nearly
	DuplicateIP      = "duplicate-ip"      // two guests use one address, or one uses the gateway's
	DuplicateMAC     = "duplicate-mac"     // two clients send from one address
	Flapping         = "mac-flapping"      // an address moves between clients all the time
	Storm            = "storm"             // a client sends more broadcasts than are passed on
	StalledClient    = "stalled-client"    // a client does not read
	SlowClient       = "slow-client"       // frames for a client were dropped because it was behind
	OffloadMixed     = "offload-mixed"     // large frames for clients that cannot take them
	SharedInterface  = "shared-interface"  // clients share an interface for want of their own
	NoInterface      = "no-interface"      // a client has no port, which is tried again
	DiedAsleep       = "died-asleep"       // interfaces had died when the host woke up
	SharingBusy      = "sharing-busy"      // macOS's sharing service refuses to start interfaces
	SubnetOverlap    = "subnet-overlap"    // the subnet is used by an interface or a route of this host
	NetworkStart     = "network-starting"  // the network has not started, or has failed
	ClientsRefused   = "clients-refused"   // there were more than --max-clients
	NotServed        = "not-served"        // what a client sent was refused, and it has no network
	ForwardFailed    = "forward-failed"    // a forwarded port could not be opened
	StateNotKept     = "state-not-kept"    // leases and identities end with the process
	ProgramReplaced  = "program-replaced"  // another version is installed than the one that runs
	GatewayDown      = "gateway-down"      // the process with DHCP, DNS and NAT has ended, or does not answer
	ForwardedUnknown = "forward-to-nobody" // a forward leads to an address that no guest has
)

// A Problem is something that a user would want to know, in plain English.
type Problem struct {
	Code     string    `json:"code"`
	Severity string    `json:"severity"`
	Since    time.Time `json:"since,omitzero"` // when it was first seen, if that is known
	Clients  []uint64  `json:"clients"`        // that it concerns
	Text     string    `json:"text"`           // one sentence: what happens, with which value
	Fix      []string  `json:"fix"`            // what to do, a step each; commands are indented by four blanks
}
