// SPDX-License-Identifier: Apache-2.0

// The keys: variables that point to strings, as in the framework.
#include "internal.h"

#define KEY(name) const char *vmnet_##name##_key = "vmnet_" #name;

KEY(operation_mode)
KEY(shared_interface_name)
KEY(mac_address)
KEY(allocate_mac_address)
KEY(mtu)
KEY(max_packet_size)
KEY(interface_id)
KEY(start_address)
KEY(end_address)
KEY(subnet_mask)
KEY(nat66_prefix)
KEY(estimated_packets_available)
KEY(network_identifier)
KEY(host_ip_address)
KEY(host_subnet_mask)
KEY(host_ipv6_address)
KEY(enable_tso)
KEY(enable_isolation)
KEY(enable_checksum_offload)
#ifndef NO_MACOS15
KEY(read_max_packets)
KEY(write_max_packets)
KEY(enable_virtio_header)
#endif
