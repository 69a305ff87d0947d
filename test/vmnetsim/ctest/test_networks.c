// SPDX-License-Identifier: Apache-2.0

// Networks of macOS 26.
#include "harness.h"

#ifndef NO_MACOS26

#include <arpa/inet.h>

static struct in_addr ip(const char *text)
{
	struct in_addr a;
	CHECK(inet_pton(AF_INET, text, &a) == 1);
	return a;
}

static vmnet_network_configuration_ref config(uint32_t mode)
{
	vmnet_return_t st = 0;
	vmnet_network_configuration_ref c = vmnet_network_configuration_create(mode, &st);
	EQUAL(VMNET_SUCCESS, st);
	CHECK(c != NULL);
	return c;
}

static vmnet_return_t set_subnet(vmnet_network_configuration_ref c, const char *subnet, const char *mask)
{
	struct in_addr s = ip(subnet), m = ip(mask);
	return vmnet_network_configuration_set_ipv4_subnet(c, &s, &m);
}

static vmnet_network_ref create(vmnet_network_configuration_ref c, vmnet_return_t want)
{
	vmnet_return_t st = 0;
	vmnet_network_ref n = vmnet_network_create(c, &st);
	CFRelease(c);
	EQUAL(want, st);
	EQUAL(want == VMNET_SUCCESS, n != NULL);
	return n;
}

CASE(configurations_are_checked)
{
	vmnet_return_t st = 0;
	struct in_addr a = ip("192.168.105.0");
	const uint8_t mac[6] = {2};
	CHECK(vmnet_network_configuration_create(VMNET_BRIDGED_MODE, &st) == NULL);
	EQUAL(VMNET_INVALID_ARGUMENT, st);
	vmnet_network_configuration_ref c = config(VMNET_SHARED_MODE), h = config(VMNET_HOST_MODE);
	EQUAL(VMNET_INVALID_ARGUMENT, set_subnet(c, "192.168.105.255", "255.255.255.0"));
	EQUAL(VMNET_INVALID_ARGUMENT, set_subnet(c, "192.168.105.0", "255.0.255.0"));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_ipv4_subnet(c, &a, NULL));
	EQUAL(VMNET_INVALID_ARGUMENT, set_subnet(NULL, "192.168.105.0", "255.255.255.0"));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_external_interface(c, "en7"));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_external_interface(c, NULL));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_external_interface(h, "en0"));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_mtu(c, 100));
	struct in6_addr p = {{{0xfd, 0, 0, 0, 0, 0, 0, 1}}}, g = {{{0x20, 1}}};
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_ipv6_prefix(c, &p, 48));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_ipv6_prefix(c, &g, 64));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_add_dhcp_reservation(c, NULL, &a));
	EQUAL(VMNET_SUCCESS, vmnet_network_configuration_add_dhcp_reservation(c, mac, &a));
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_add_dhcp_reservation(c, mac, &a)); // twice
	CFRelease(h);
	EQUAL(VMNET_INVALID_ARGUMENT, vmnet_network_configuration_set_mtu(h, 1500)); // after its release
	CFRelease(c);
}

CASE(forwards_are_checked)
{
	vmnet_network_configuration_ref c = config(VMNET_SHARED_MODE);
	struct in_addr a = ip("192.168.105.7");
	struct in6_addr a6 = {{{0xfd}}};
#define ADD(proto, family, in, out, address) \
	vmnet_network_configuration_add_port_forwarding_rule(c, proto, family, in, out, address)
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(1, DARWIN_AF_INET, 22, 2222, &a));
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(6, 10, 22, 2222, &a6)); // Linux's AF_INET6
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(6, DARWIN_AF_INET, 0, 2222, &a));
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(6, DARWIN_AF_INET, 22, 0, &a));
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(6, DARWIN_AF_INET, 22, 2222, NULL));
	EQUAL(VMNET_SUCCESS, ADD(6, DARWIN_AF_INET, 22, 2222, &a));
	EQUAL(VMNET_INVALID_ARGUMENT, ADD(6, DARWIN_AF_INET, 23, 2222, &a)); // taken
	EQUAL(VMNET_SUCCESS, ADD(17, DARWIN_AF_INET, 23, 2222, &a));
	EQUAL(VMNET_SUCCESS, ADD(6, DARWIN_AF_INET6, 22, 2223, &a6));
	CFRelease(c);
}

// Of a description, only a few keys count on a network.
CASE(network_ignores_keys)
{
	struct nic a;
	vmnet_network_ref n = create(config(VMNET_SHARED_MODE), VMNET_SUCCESS);
	const uint8_t id[16] = {1, 2, 3};
	xpc_object_t d = describe_range(VMNET_BRIDGED_MODE, "10.1.1.1", "10.1.1.9", "255.255.255.0");
	xpc_dictionary_set_uuid(d, vmnet_interface_id_key, id);
	xpc_dictionary_set_uint64(d, vmnet_mtu_key, 9000);
	xpc_dictionary_set_bool(d, vmnet_allocate_mac_address_key, false);
	xpc_dictionary_set_bool(d, vmnet_enable_tso_key, true);
	nic_open(&a, n, d);
	EQUAL(0, strlen(nic_param(&a, vmnet_start_address_key)));
	CHECK(memcmp(xpc_find(a.started.params, vmnet_interface_id_key, TYPE_UUID)->uuid, id, 16) != 0);
	EQUAL(1500, xpc_dictionary_get_uint64(a.started.params, vmnet_mtu_key));
	EQUAL(17, strlen(nic_param(&a, vmnet_mac_address_key))); // all the same
	EQUAL(65550, xpc_dictionary_get_uint64(a.started.params, vmnet_max_packet_size_key));
	nic_close(&a);
	CFRelease(n);
}

// What vmnet_network_create refuses: addresses that are no guest's, and public subnets.
CASE(network_creation_is_checked)
{
	static const struct {
		const char *subnet, *reserved;
		vmnet_return_t status;
	} cases[] = {
		{"192.168.105.1", "192.168.105.0", VMNET_INVALID_ARGUMENT}, {"192.168.105.1", "192.168.105.1", VMNET_INVALID_ARGUMENT},
		{"192.168.105.1", "192.168.105.2", VMNET_SUCCESS}, {"192.168.105.1", "192.168.105.254", VMNET_SUCCESS},
		{"192.168.105.1", "192.168.105.255", VMNET_INVALID_ARGUMENT}, {"192.168.105.1", "192.168.106.2", VMNET_INVALID_ARGUMENT},
		{"8.8.8.1", "8.8.8.2", VMNET_FAILURE},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct in_addr a = ip(cases[i].reserved);
		vmnet_network_configuration_ref c = config(VMNET_SHARED_MODE);
		EQUAL(VMNET_SUCCESS, vmnet_network_configuration_add_dhcp_reservation(c, (const uint8_t[6]){2}, &a));
		EQUAL(VMNET_SUCCESS, set_subnet(c, cases[i].subnet, "255.255.255.0"));
		vmnet_network_ref n = create(c, cases[i].status);
		if (n != NULL)
			CFRelease(n);
	}
}

static int rules(void)
{
	int n = 0;
	for (int i = 0; i < RULES; i++)
		n += atomic_load(&control()->rules[i].kind) != 0;
	return n;
}

// A network whose last interface leaves goes idle, and forgets its rules and reservations for good.
CASE(idle_networks_forget_their_rules)
{
	struct nic a, b;
	struct in_addr guest = ip("192.168.105.7");
	vmnet_network_configuration_ref c = config(VMNET_SHARED_MODE);
	EQUAL(VMNET_SUCCESS, set_subnet(c, "192.168.105.1", "255.255.255.0"));
	EQUAL(VMNET_SUCCESS, ADD(6, DARWIN_AF_INET, 22, 2222, &guest));
	vmnet_network_ref n = create(c, VMNET_SUCCESS);
	nic_open(&a, n, describe(0));
	nic_open(&b, n, describe(0));
	nic_close(&a);
	EQUAL(1, rules());
	nic_close(&b);
	EQUAL(0, rules());
	nic_open(&a, n, describe(0));
	EQUAL(0, rules());
	nic_close(&a);
	CFRelease(n);
}

// An interface on a network takes no forwards: the call fails at once, and its handler is not called.
CASE(no_forwards_on_a_networks_interface)
{
	struct nic a;
	struct waiter w;
	struct in_addr guest = ip("192.168.64.7");
	waiter_status(&w);
	vmnet_network_ref n = create(config(VMNET_SHARED_MODE), VMNET_SUCCESS);
	nic_open(&a, n, describe(0));
	EQUAL(VMNET_FAILURE,
		vmnet_interface_add_ip_port_forwarding_rule(a.ref, 6, 2222, DARWIN_AF_INET, &guest, 22, &w.b));
	NO_MORE(&w, 1);
	nic_close(&a);
	CFRelease(n);
	waiter_free(&w);
}

static vmnet_network_ref released(void)
{
	vmnet_network_ref n = create(config(VMNET_SHARED_MODE), VMNET_SUCCESS);
	CFRelease(n);
	return n;
}

DEATH(over_release_network, "CFRelease: over-release")
{
	struct nic a;
	vmnet_network_ref n = create(config(VMNET_SHARED_MODE), VMNET_SUCCESS);
	nic_open(&a, n, describe(0)); // which holds a reference of its own
	CFRelease(n);
	CFRelease(n);
}

DEATH(subnet_of_a_released_network, "use of an object after its last release")
{
	vmnet_network_get_ipv4_subnet(released(), &(struct in_addr){0}, &(struct in_addr){0});
}

DEATH(release_network_as_xpc, "xpc_release: wrong kind of object")
{
	xpc_release((xpc_object_t)(void *)create(config(VMNET_SHARED_MODE), VMNET_SUCCESS));
}

DEATH(disable_on_a_released_configuration, "disable_dhcp: use of an object after its last release")
{
	vmnet_network_configuration_ref c = config(VMNET_SHARED_MODE);
	CFRelease(c);
	vmnet_network_configuration_disable_dhcp(c);
}

#endif
