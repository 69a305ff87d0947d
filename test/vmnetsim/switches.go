// SPDX-License-Identifier: Apache-2.0

package vmnetsim

// A Switch changes what the simulator does; Control.Set flips it. README.md tells what each one models.
type Switch string

// Calls that give back no reference but NULL. 1: the handler comes, with the handler switch's status or VMNET_FAILURE;
// 2: it does not.
const (
	StartNull   Switch = "null.vmnet_start_interface"
	StartOnNull Switch = "null.vmnet_interface_start_with_network"
)

// The statuses that handlers are called with. The interface is not there then; a stop has happened all the same.
const (
	StartStatus   Switch = "handler.vmnet_start_interface"
	StartOnStatus Switch = "handler.vmnet_interface_start_with_network"
	StopStatus    Switch = "handler.vmnet_stop_interface"
	ForwardStatus Switch = "handler.vmnet_interface_add_ip_port_forwarding_rule"
)

// 1: the handler is never called. A start has not happened then, a stop and a rule have.
const (
	StartSilent   Switch = "silent.vmnet_start_interface"
	StartOnSilent Switch = "silent.vmnet_interface_start_with_network"
	StopSilent    Switch = "silent.vmnet_stop_interface"
	ForwardSilent Switch = "silent.vmnet_interface_add_ip_port_forwarding_rule"
)

// The results of calls, which have no effect then.
const (
	SetEventCallbackResult Switch = "result.vmnet_interface_set_event_callback"
	ReadResult             Switch = "result.vmnet_read"
	WriteResult            Switch = "result.vmnet_write"
	SharedListResult       Switch = "result.vmnet_copy_shared_interface_list" // any value: NULL
	ForwardResult          Switch = "result.vmnet_interface_add_ip_port_forwarding_rule"
	ConfigCreateResult     Switch = "result.vmnet_network_configuration_create"
	SetExternalResult      Switch = "result.vmnet_network_configuration_set_external_interface"
	SetSubnetResult        Switch = "result.vmnet_network_configuration_set_ipv4_subnet"
	SetPrefixResult        Switch = "result.vmnet_network_configuration_set_ipv6_prefix"
	SetMTUResult           Switch = "result.vmnet_network_configuration_set_mtu"
	AddReservationResult   Switch = "result.vmnet_network_configuration_add_dhcp_reservation"
	AddForwardResult       Switch = "result.vmnet_network_configuration_add_port_forwarding_rule"
	NetworkCreateResult    Switch = "result.vmnet_network_create"
)

// Switches with one value.
const (
	DieOrdinal     Switch = "die_ordinal"      // the interface started as the nth since Reset dies; -1: all
	DieStatus      Switch = "die_status"       // what its calls return; VMNET_INVALID_ACCESS unless set
	StartDelay     Switch = "start_delay_ms"   // before the handler
	StopDelay      Switch = "stop_delay_ms"    // before the handler
	EventDelay     Switch = "event_delay_us"   // before each event
	EventLoseEvery Switch = "event_lose_every" // every nth event is lost
	ReadMax        Switch = "read_max"         // packets per vmnet_read
	BusyAfter      Switch = "busy_ms"          // how long a subnet is busy after its owner let it go or died
	Host           Switch = "host"             // 1: the host's side answers; 2: all but DHCP
	NoUnicast      Switch = "no_unicast"       // 1: no unicast from interface to interface
	MaxInterfaces  Switch = "interfaces_max"   // 32 unless set
)
