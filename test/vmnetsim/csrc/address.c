// SPDX-License-Identifier: Apache-2.0

// Addresses and names of interfaces.
#include "internal.h"

#include <arpa/inet.h>

bool parse_ipv4(const char *text, uint32_t *out)
{
	struct in_addr a;
	if (inet_pton(AF_INET, text, &a) != 1)
		return false;
	*out = ntohl(a.s_addr);
	return true;
}

void format_ipv4(uint32_t address, char out[16])
{
	struct in_addr a = {htonl(address)};
	inet_ntop(AF_INET, &a, out, 16);
}

bool good_mask(uint32_t mask)
{
	uint32_t hosts = ~mask;
	return mask != 0 && hosts >= 3 && (hosts & (hosts + 1)) == 0;
}

// RFC 1918.
bool private_range(uint32_t subnet, uint32_t mask)
{
	static const struct {
		uint32_t subnet, mask;
	} ranges[] = {{0x0a000000, 0xff000000}, {0xac100000, 0xfff00000}, {0xc0a80000, 0xffff0000}};
	for (int i = 0; i < 3; i++)
		if ((subnet & ranges[i].mask) == ranges[i].subnet && mask >= ranges[i].mask)
			return true;
	return false;
}

bool ula_prefix(const uint8_t prefix[16])
{
	uint8_t rest = 0;
	for (int i = 8; i < 16; i++)
		rest |= prefix[i];
	return prefix[0] == 0xfd && rest == 0;
}

static const char *const names[] = {"en0", "en1"};

bool known_interface(const char *name)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

xpc_object_t vmnet_copy_shared_interface_list(void)
{
	COUNT(vmnet_copy_shared_interface_list);
	if (FAULT(result, vmnet_copy_shared_interface_list) != 0)
		return NULL;
	struct xpc *a = xpc_new_array();
	atomic_store(&a->o.ext, 1); // the caller's
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		xpc_append_string(a, names[i]);
	return a;
}
