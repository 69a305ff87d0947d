// SPDX-License-Identifier: Apache-2.0

// What the files of the host's side share.
#ifndef VMNETSIM_HOST_H
#define VMNETSIM_HOST_H

#include "internal.h"

enum { ETHERNET = 14, IP = 20, UDP = 17, UDP_HEADER = 8 };

static inline uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }

static inline void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)(v >> 16));
	put16(p + 2, (uint16_t)v);
}

uint16_t checksum(const uint8_t *, size_t len, uint32_t sum); // of the Internet, RFC 1071
void host_mac(const struct net *, uint8_t mac[6]);
bool host_guest(const struct settings *, uint32_t address); // one that a guest may have

// Headers in front of what lies in the reply already; both return the frame's length.
uint32_t ethernet(const struct net *, uint8_t *reply, const uint8_t to[6], uint16_t type, uint32_t len);
uint32_t ipv4(const struct net *, uint8_t *reply, const uint8_t to_mac[6], uint32_t to, uint8_t protocol, uint32_t len);

// The answer to a UDP packet for us or for all, with len bytes behind the header of IP; its length or 0.
uint32_t answer_dhcp(struct net *, const uint8_t *frame, uint32_t len, uint8_t *reply);

// Leases, of all processes: with the owners locked. A MAC address has one in each subnet.
struct client {
	const struct settings *net;
	uint64_t mac;
	const char *name; // that it calls itself, or ""
};
uint32_t lease_find(const struct client *, uint32_t wish); // an address for it, or 0
bool lease_usable(const struct client *, uint32_t address);
void lease_bind(const struct client *, uint32_t address, bool given); // else offered

#endif
