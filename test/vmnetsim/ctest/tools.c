// SPDX-License-Identifier: Apache-2.0

// What the Go tests have other processes do.
#include "harness.h"

#include <arpa/inet.h>
#include <stdlib.h>

static xpc_object_t range(void)
{
	return describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.254", "255.255.255.0");
}

// Tells that all is set up, and goes on when the input ends.
static void wait_for_end(void)
{
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF) {
	}
}

// Has an interface on 192.168.105.0/24.
TOOL(hold)
{
	struct nic n;
	nic_open(&n, NULL, range());
	wait_for_end();
	nic_close(&n);
}

// Prints the status of a start on 192.168.105.0/24.
TOOL(try_range)
{
	struct nic n;
	vmnet_return_t st = nic_try(&n, NULL, range());
	printf("%u\n", st);
	if (st == VMNET_SUCCESS)
		nic_close(&n);
}

// The same with another end of the range.
TOOL(try_other_end)
{
	struct nic n;
	printf("%u\n", nic_try(&n, NULL, describe_range(VMNET_SHARED_MODE, "192.168.105.1", "192.168.105.9", "255.255.255.0")));
}

// Sends two broadcasts between two interfaces and reads one.
TOOL(frames)
{
	struct nic a, b;
	struct frame f;
	nic_open(&a, NULL, range());
	nic_open(&b, NULL, range());
	frame_make(&f, ALL, 1, 60);
	nic_send(&a, &f);
	nic_send(&a, &f);
	nic_receive(&b, &f);
	wait_for_end();
	close_two(&a, &b);
}

#ifndef NO_MACOS26

static vmnet_network_ref network(vmnet_return_t *st)
{
	struct in_addr s = {htonl(0xc0a86901)}, m = {htonl(0xffffff00)}, a = {htonl(0xc0a86907)};
	struct in6_addr p = {{{0xfd, 0x12}}};
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	vmnet_network_configuration_ref c = vmnet_network_configuration_create(VMNET_SHARED_MODE, st);
	vmnet_network_configuration_set_ipv4_subnet(c, &s, &m);
	vmnet_network_configuration_set_ipv6_prefix(c, &p, 64);
	vmnet_network_configuration_set_mtu(c, 1400);
	vmnet_network_configuration_set_external_interface(c, "en0");
	vmnet_network_configuration_disable_dhcp(c);
	vmnet_network_configuration_add_dhcp_reservation(c, mac, &a);
	vmnet_network_configuration_add_port_forwarding_rule(c, 6, DARWIN_AF_INET, 22, 2222, &a);
	vmnet_network_ref n = vmnet_network_create(c, st);
	CFRelease(c);
	return n;
}

// Has a network on 192.168.105.0/24.
TOOL(hold_network)
{
	vmnet_return_t st;
	vmnet_network_ref n = network(&st);
	EQUAL(VMNET_SUCCESS, st);
	wait_for_end();
	CFRelease(n);
}

// Prints the status of a network on 192.168.105.0/24.
TOOL(try_network)
{
	vmnet_return_t st;
	vmnet_network_ref n = network(&st);
	printf("%u\n", st);
	if (n != NULL)
		CFRelease(n);
}

#endif
