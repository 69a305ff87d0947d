// SPDX-License-Identifier: Apache-2.0

package status

import "time"

// Severities of a Problem.
const (
	Error   = "error"   // something does not work
	Warning = "warning" // something is about not to, or costs a lot
	Notice  = "notice"  // worth knowing
)

// CommandIndent begins a step of a Fix that is a command.
const CommandIndent = "    "

// Codes of problems, for programs. docs/health.md explains each.
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
	SharingBusy      = "sharing-busy"      // macOS's sharing service refuses to start interfaces
	SubnetOverlap    = "subnet-overlap"    // the subnet is used by an interface or a route of this host
	NetworkStart     = "network-starting"  // the network has not started, or has failed
	ClientsRefused   = "clients-refused"   // there were more than --max-clients
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
