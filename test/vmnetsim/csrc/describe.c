// SPDX-License-Identifier: Apache-2.0

// What descriptions of interfaces say, and the parameters that come back.
#include "internal.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { MIN_MTU = 576, MAX_MTU = 16384, TSO_PACKET = 65550, HEADER = 14 };

// A value of the right type or NULL; one of another type spoils the description.
static struct xpc *want(const struct xpc *desc, const char *key, uint32_t type, bool *ok)
{
	struct xpc *v = xpc_find(desc, key, type);
	for (size_t i = 0; v == NULL && i < desc->count; i++)
		if (strcmp(desc->entries[i].key, key) == 0)
			*ok = false;
	return v;
}

static uint64_t number(const struct xpc *desc, const char *key, uint32_t type, uint64_t otherwise, bool *ok)
{
	struct xpc *v = want(desc, key, type, ok);
	return v == NULL ? otherwise : v->number;
}

// All three addresses or none; the first is the gateway, the DHCP range lies behind it.
static bool addresses(const struct xpc *desc, struct settings *s)
{
	bool ok = true;
	struct xpc *start = want(desc, vmnet_start_address_key, TYPE_STRING, &ok);
	struct xpc *end = want(desc, vmnet_end_address_key, TYPE_STRING, &ok);
	struct xpc *mask = want(desc, vmnet_subnet_mask_key, TYPE_STRING, &ok);
	if (start == NULL && end == NULL && mask == NULL)
		return ok;
	if (start == NULL || end == NULL || mask == NULL || s->mode == VMNET_BRIDGED_MODE)
		return false;
	if (!parse_ipv4(start->string, &s->start) || !parse_ipv4(end->string, &s->end) ||
		!parse_ipv4(mask->string, &s->mask) || !good_mask(s->mask))
		return false;
	s->subnet = s->start & s->mask;
	s->asked = true;
	uint32_t broadcast = s->subnet | ~s->mask;
	return private_range(s->subnet, s->mask) && s->start > s->subnet && s->end > s->start && s->end < broadcast;
}

static bool mode_details(const struct xpc *desc, struct settings *s)
{
	bool ok = true;
	struct xpc *name = want(desc, vmnet_shared_interface_name_key, TYPE_STRING, &ok);
	if (s->mode == VMNET_BRIDGED_MODE) {
		if (name == NULL || !known_interface(name->string))
			return false;
		snprintf(s->external, sizeof s->external, "%s", name->string);
	}
	struct xpc *id = want(desc, vmnet_network_identifier_key, TYPE_UUID, &ok);
	if (id != NULL && s->mode == VMNET_HOST_MODE) {
		s->has_id = true;
		s->flags |= NO_DHCP;
		memcpy(s->network_id, id->uuid, 16);
	}
	struct xpc *prefix = want(desc, vmnet_nat66_prefix_key, TYPE_STRING, &ok);
	if (prefix != NULL && s->mode == VMNET_SHARED_MODE) {
		if (inet_pton(AF_INET6, prefix->string, s->prefix6) != 1 || !ula_prefix(s->prefix6))
			return false;
		s->prefix6_length = 64;
	}
	return ok;
}

// The keys that both ways of starting know.
static bool common(const struct xpc *desc, struct description *d)
{
	bool ok = true;
	d->isolated = number(desc, vmnet_enable_isolation_key, TYPE_BOOL, 0, &ok);
	d->tso = number(desc, vmnet_enable_tso_key, TYPE_BOOL, 0, &ok);
	d->no_mac = !number(desc, vmnet_allocate_mac_address_key, TYPE_BOOL, 1, &ok);
	number(desc, vmnet_enable_checksum_offload_key, TYPE_BOOL, 0, &ok);
#ifndef NO_MACOS15
	if (number(desc, vmnet_enable_virtio_header_key, TYPE_BOOL, 0, &ok) != 0)
		ok = false; // not simulated
#endif
	return ok;
}

bool describe_plain(const struct xpc *desc, struct description *d)
{
	bool ok = true;
	struct settings *s = &d->s;
	s->kind = KIND_INTERFACE;
	s->mode = (uint32_t)number(desc, vmnet_operation_mode_key, TYPE_UINT64, 0, &ok);
	if (!ok || s->mode < VMNET_HOST_MODE || s->mode > VMNET_BRIDGED_MODE)
		return false;
	s->mtu = (uint32_t)number(desc, vmnet_mtu_key, TYPE_UINT64, 0, &ok);
	if (s->mtu != 0 && (s->mode == VMNET_BRIDGED_MODE || s->mtu < MIN_MTU || s->mtu > MAX_MTU))
		return false;
	if (s->mtu == 0)
		s->mtu = 1500;
	struct xpc *id = want(desc, vmnet_interface_id_key, TYPE_UUID, &ok);
	if (id != NULL) {
		d->has_id = true;
		memcpy(d->id, id->uuid, 16);
	}
	return ok && addresses(desc, s) && mode_details(desc, s) && common(desc, d);
}

// Of interfaces on a network, all keys but a few are ignored; and a MAC address is always made.
bool describe_on_network(const struct xpc *desc, struct description *d)
{
	bool ok = common(desc, d);
	d->no_mac = false;
	return ok;
}

void describe_apply(struct iface *i, struct description *d)
{
	uint64_t r[2] = {random64(), random64()};
	if (!d->has_id) {
		memcpy(d->id, r, 16);
		d->id[6] = (d->id[6] & 0x0f) | 0x40;
		d->id[8] = (d->id[8] & 0x3f) | 0x80;
	}
	memcpy(i->id, d->id, 16);
	uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
	for (int k = 0; k < 16; k++)
		hash = (hash ^ d->id[k]) * 0x100000001b3u;
	hash ^= hash >> 32;
	memcpy(i->mac, &hash, 6);
	i->mac[0] = (i->mac[0] & 0xfc) | 0x02; // locally administered
	i->isolated = d->isolated;
	i->mtu = d->s.mtu;
	i->max_packet = d->tso ? TSO_PACKET : i->mtu + HEADER;
}

struct xpc *parameters(const struct iface *i, const struct description *d)
{
	struct xpc *x = xpc_new_dictionary();
	const struct settings *s = &i->net->s;
	char text[64];
	if (!d->no_mac) {
		snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", i->mac[0], i->mac[1], i->mac[2], i->mac[3], i->mac[4],
			i->mac[5]);
		xpc_put_string(x, vmnet_mac_address_key, text);
	}
	xpc_put_number(x, vmnet_mtu_key, TYPE_UINT64, i->mtu);
	xpc_put_number(x, vmnet_max_packet_size_key, TYPE_UINT64, i->max_packet);
	xpc_put_uuid(x, vmnet_interface_id_key, i->id);
#ifndef NO_MACOS15
	xpc_put_number(x, vmnet_read_max_packets_key, TYPE_UINT64, MAX_PACKETS);
	xpc_put_number(x, vmnet_write_max_packets_key, TYPE_UINT64, MAX_PACKETS);
#endif
	if (s->kind == KIND_NETWORK)
		return x; // the addresses are the network's to tell
	if (s->subnet != 0) {
		format_ipv4(s->start, text);
		xpc_put_string(x, vmnet_start_address_key, text);
		format_ipv4(s->end, text);
		xpc_put_string(x, vmnet_end_address_key, text);
		format_ipv4(s->mask, text);
		xpc_put_string(x, vmnet_subnet_mask_key, text);
	}
	if (s->mode == VMNET_SHARED_MODE && s->prefix6_length != 0) {
		inet_ntop(AF_INET6, s->prefix6, text, sizeof text);
		xpc_put_string(x, vmnet_nat66_prefix_key, text);
	}
	return x;
}
