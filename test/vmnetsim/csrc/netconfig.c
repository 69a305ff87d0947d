// SPDX-License-Identifier: Apache-2.0

// Network configurations and networks of macOS 26.
#include "internal.h"

#ifndef NO_MACOS26

#include <arpa/inet.h>
#include <stdio.h>

enum { CONFIG_RULES = 64, MIN_MTU = 576, MAX_MTU = 16384 };

struct config {
	struct object o;
	struct settings s;
	int rules;
	struct rule rule[CONFIG_RULES];
};

static bool usable(struct config *c) { return object_lives(c, TYPE_CONFIG); }

// Begins a function of a configuration: counts, and returns a fault or what a dead configuration deserves.
#define BEGIN(f, c) \
	do { \
		COUNT(f); \
		int64_t fault = FAULT(result, f); \
		if (fault != 0) \
			return (vmnet_return_t)fault; \
		if (!usable(c)) \
			return VMNET_INVALID_ARGUMENT; \
	} while (0)

static void *null_with(vmnet_return_t *status, vmnet_return_t st)
{
	if (status != NULL)
		*status = st;
	return NULL;
}

vmnet_network_configuration_ref vmnet_network_configuration_create(uint32_t mode, vmnet_return_t *status)
{
	COUNT(vmnet_network_configuration_create);
	int64_t fault = FAULT(result, vmnet_network_configuration_create);
	if (fault != 0)
		return null_with(status, (vmnet_return_t)fault);
	if (mode != VMNET_HOST_MODE && mode != VMNET_SHARED_MODE)
		return null_with(status, VMNET_INVALID_ARGUMENT);
	struct config *c = object_new(sizeof *c, TYPE_CONFIG, NULL);
	c->s.mode = mode;
	c->s.kind = KIND_NETWORK;
	c->s.mtu = 1500;
	null_with(status, VMNET_SUCCESS);
	return c;
}

vmnet_return_t vmnet_network_configuration_set_external_interface(vmnet_network_configuration_ref c, const char *name)
{
	BEGIN(vmnet_network_configuration_set_external_interface, c);
	if (c->s.mode != VMNET_SHARED_MODE || name == NULL || !known_interface(name))
		return VMNET_INVALID_ARGUMENT;
	snprintf(c->s.external, sizeof c->s.external, "%s", name);
	return VMNET_SUCCESS;
}

vmnet_return_t vmnet_network_configuration_set_ipv4_subnet(vmnet_network_configuration_ref c,
	const struct in_addr *subnet, const struct in_addr *mask)
{
	BEGIN(vmnet_network_configuration_set_ipv4_subnet, c);
	if (subnet == NULL || mask == NULL)
		return VMNET_INVALID_ARGUMENT;
	uint32_t host = ntohl(subnet->s_addr), m = ntohl(mask->s_addr);
	if (!good_mask(m) || (host | m) == UINT32_MAX)
		return VMNET_INVALID_ARGUMENT;
	c->s.subnet = host & m;
	c->s.mask = m;
	c->s.start = host; // even where it is the subnet's own: then there is no DHCP
	c->s.end = (host | ~m) - 1;
	c->s.asked = true;
	return VMNET_SUCCESS;
}

vmnet_return_t vmnet_network_configuration_set_ipv6_prefix(vmnet_network_configuration_ref c,
	const struct in6_addr *prefix, uint8_t length)
{
	BEGIN(vmnet_network_configuration_set_ipv6_prefix, c);
	if (prefix == NULL || length != 64 || !ula_prefix(prefix->s6_addr))
		return VMNET_INVALID_ARGUMENT;
	memcpy(c->s.prefix6, prefix, 16);
	c->s.prefix6_length = length;
	return VMNET_SUCCESS;
}

vmnet_return_t vmnet_network_configuration_set_mtu(vmnet_network_configuration_ref c, uint32_t mtu)
{
	BEGIN(vmnet_network_configuration_set_mtu, c);
	if (mtu < MIN_MTU || mtu > MAX_MTU)
		return VMNET_INVALID_ARGUMENT;
	c->s.mtu = mtu;
	return VMNET_SUCCESS;
}

static vmnet_return_t keep_rule(struct config *c, const struct rule *r)
{
	if (c->rules == CONFIG_RULES)
		return VMNET_FAILURE;
	for (int i = 0; i < c->rules; i++) {
		const struct rule *o = &c->rule[i];
		if (o->kind != r->kind)
			continue;
		bool same = r->kind == RULE_RESERVATION ? o->mac == r->mac || o->address == r->address
							: o->protocol == r->protocol && o->external_port == r->external_port;
		if (same)
			return VMNET_INVALID_ARGUMENT;
	}
	memcpy(&c->rule[c->rules++], r, sizeof *r);
	return VMNET_SUCCESS;
}

vmnet_return_t vmnet_network_configuration_add_dhcp_reservation(vmnet_network_configuration_ref c, const uint8_t mac[6],
	const struct in_addr *address)
{
	BEGIN(vmnet_network_configuration_add_dhcp_reservation, c);
	if (mac == NULL || address == NULL)
		return VMNET_INVALID_ARGUMENT;
	struct rule r = {.kind = RULE_RESERVATION, .address = ntohl(address->s_addr)};
	for (int i = 0; i < 6; i++)
		r.mac = r.mac << 8 | mac[i];
	return keep_rule(c, &r);
}

vmnet_return_t vmnet_network_configuration_add_port_forwarding_rule(vmnet_network_configuration_ref c, uint8_t protocol,
	uint8_t family, uint16_t internal_port, uint16_t external_port, const void *address)
{
	BEGIN(vmnet_network_configuration_add_port_forwarding_rule, c);
	struct rule r = {
		.kind = RULE_FORWARD, .protocol = protocol, .internal_port = internal_port, .external_port = external_port};
	if (!forward_address(&r, family, address))
		return VMNET_INVALID_ARGUMENT;
	return keep_rule(c, &r);
}

static void check(const void *o, uint32_t type, const char *what, const char *function)
{
	object_check(o, function);
	if (!object_lives(o, type))
		die("%s: not a %s", function, what);
}

#define DISABLE(f, flag) \
	void vmnet_network_configuration_disable_##f(vmnet_network_configuration_ref c) \
	{ \
		COUNT(vmnet_network_configuration_disable_##f); \
		check(c, TYPE_CONFIG, "configuration", "vmnet_network_configuration_disable_" #f); \
		c->s.flags |= flag; \
	}

DISABLE(nat44, NO_NAT44)
DISABLE(nat66, NO_NAT66)
DISABLE(dhcp, NO_DHCP)
DISABLE(dns_proxy, NO_DNS_PROXY)
DISABLE(router_advertisement, NO_RA)

// Addresses in rules are guests': of the subnet, and neither the host's nor one of the two ends.
static bool rules_fit(const struct config *c, const struct settings *s)
{
	for (int i = 0; i < c->rules; i++) {
		uint32_t a = (uint32_t)c->rule[i].address;
		if (a != 0 && ((a & s->mask) != s->subnet || a == s->subnet || a == s->start || a > s->end))
			return false;
	}
	return true;
}

vmnet_network_ref vmnet_network_create(vmnet_network_configuration_ref c, vmnet_return_t *status)
{
	COUNT(vmnet_network_create);
	int64_t fault = FAULT(result, vmnet_network_create);
	if (fault != 0)
		return null_with(status, (vmnet_return_t)fault);
	if (!usable(c) || (c->s.asked && !rules_fit(c, &c->s)))
		return null_with(status, VMNET_INVALID_ARGUMENT);
	if (c->s.asked && !private_range(c->s.subnet, c->s.mask))
		return null_with(status, VMNET_FAILURE);
	vmnet_return_t st;
	struct net *n = net_new(&c->s, &st);
	if (n == NULL)
		return null_with(status, st);
	for (int i = 0; i < c->rules; i++) {
		struct rule r;
		memcpy(&r, &c->rule[i], sizeof r);
		r.subnet = n->s.subnet;
		rule_add(&r);
	}
	null_with(status, VMNET_SUCCESS);
	return n;
}

void vmnet_network_get_ipv4_subnet(vmnet_network_ref n, struct in_addr *subnet, struct in_addr *mask)
{
	COUNT(vmnet_network_get_ipv4_subnet);
	check(n, TYPE_NETWORK, "network", "vmnet_network_get_ipv4_subnet");
	subnet->s_addr = htonl(n->s.start); // the host's address, as the framework tells it
	mask->s_addr = htonl(n->s.mask);
}

void vmnet_network_get_ipv6_prefix(vmnet_network_ref n, struct in6_addr *prefix, uint8_t *length)
{
	COUNT(vmnet_network_get_ipv6_prefix);
	check(n, TYPE_NETWORK, "network", "vmnet_network_get_ipv6_prefix");
	memcpy(prefix, n->s.prefix6, 16);
	*length = n->s.prefix6_length;
}

#endif
