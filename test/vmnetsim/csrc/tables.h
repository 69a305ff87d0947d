// SPDX-License-Identifier: Apache-2.0

// What is in the control file, in its order. The Go side reads this very file.
#ifndef VMNETSIM_TABLES_H
#define VMNETSIM_TABLES_H

// How often an exported function was called.
#define CALL_TABLE(X) \
	X(vmnet_start_interface) X(vmnet_stop_interface) X(vmnet_interface_set_event_callback) X(vmnet_read) X(vmnet_write) \
	X(vmnet_copy_shared_interface_list) X(vmnet_interface_add_ip_port_forwarding_rule) \
	X(vmnet_network_configuration_create) X(vmnet_network_configuration_set_external_interface) \
	X(vmnet_network_configuration_set_ipv4_subnet) X(vmnet_network_configuration_set_ipv6_prefix) \
	X(vmnet_network_configuration_set_mtu) X(vmnet_network_configuration_add_dhcp_reservation) \
	X(vmnet_network_configuration_add_port_forwarding_rule) X(vmnet_network_configuration_disable_nat44) \
	X(vmnet_network_configuration_disable_nat66) X(vmnet_network_configuration_disable_dhcp) \
	X(vmnet_network_configuration_disable_dns_proxy) X(vmnet_network_configuration_disable_router_advertisement) \
	X(vmnet_network_create) X(vmnet_interface_start_with_network) X(vmnet_network_get_ipv4_subnet) \
	X(vmnet_network_get_ipv6_prefix) X(xpc_dictionary_create) X(xpc_dictionary_set_value) X(xpc_dictionary_set_uint64) \
	X(xpc_dictionary_set_int64) X(xpc_dictionary_set_bool) X(xpc_dictionary_set_string) X(xpc_dictionary_set_uuid) \
	X(xpc_dictionary_get_uint64) X(xpc_dictionary_apply) X(xpc_get_type) X(xpc_uint64_get_value) X(xpc_int64_get_value) \
	X(xpc_bool_get_value) X(xpc_string_get_string_ptr) X(xpc_uuid_get_bytes) X(xpc_array_get_count) \
	X(xpc_array_get_string) X(xpc_retain) X(xpc_release) X(dispatch_queue_create) X(dispatch_release) X(CFRelease) \
	X(sendmsg_x) X(recvmsg_x) X(launch_activate_socket)

// Switches "kind.function", with a value, a number of calls, and calls to let pass first.
#define FAULT_TABLE(X) \
	X(null, vmnet_start_interface) X(null, vmnet_interface_start_with_network) X(handler, vmnet_start_interface) \
	X(handler, vmnet_interface_start_with_network) X(handler, vmnet_stop_interface) \
	X(handler, vmnet_interface_add_ip_port_forwarding_rule) X(silent, vmnet_start_interface) \
	X(silent, vmnet_interface_start_with_network) X(silent, vmnet_stop_interface) \
	X(silent, vmnet_interface_add_ip_port_forwarding_rule) X(result, vmnet_interface_set_event_callback) \
	X(result, vmnet_read) X(result, vmnet_write) X(result, vmnet_copy_shared_interface_list) \
	X(result, vmnet_interface_add_ip_port_forwarding_rule) X(result, vmnet_network_configuration_create) \
	X(result, vmnet_network_configuration_set_external_interface) X(result, vmnet_network_configuration_set_ipv4_subnet) \
	X(result, vmnet_network_configuration_set_ipv6_prefix) X(result, vmnet_network_configuration_set_mtu) \
	X(result, vmnet_network_configuration_add_dhcp_reservation) \
	X(result, vmnet_network_configuration_add_port_forwarding_rule) X(result, vmnet_network_create)

// Switches with a value only: name and preset.
#define SWITCH_TABLE(X) \
	X(die_ordinal, 0) X(die_status, 1005) X(start_delay_ms, 0) X(stop_delay_ms, 0) X(event_delay_us, 0) \
	X(event_lose_every, 0) X(read_max, 0) X(busy_ms, 0) X(no_unicast, 0) X(host, 0) \
	X(interfaces_max, 32)

// Sums over all processes, living and dead.
#define GAUGE_TABLE(X) \
	X(interfaces_started) X(frames_in) X(frames_out) X(frames_dropped) X(frames_filtered) X(frames_to_host) \
	X(frames_from_host) X(events) X(events_lost)

// What a living process has now.
#define LIVE_TABLE(X) \
	X(objects) X(interfaces) X(networks) X(queues) X(blocks) X(threads)

#endif
