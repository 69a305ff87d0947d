// SPDX-License-Identifier: Apache-2.0

// The host's DHCP server, as macOS's bootpd serves vmnet: RFC 2131.
#include "host.h"

#include <string.h>

enum {
	FIXED = 236, // bytes of a message before its options
	SHORTEST = 300,
	SERVER_PORT = 67,
	CLIENT_PORT = 68,
	LEASE_SECONDS = 3600,
};
enum { DISCOVER = 1, OFFER, REQUEST, ACK = 5, NAK };
enum { MASK = 1, ROUTER = 3, DNS = 6, NAME = 12, MTU = 26, REQUESTED = 50, LEASE = 51, TYPE = 53, SERVER = 54, END = 255 };

static const uint8_t cookie[4] = {99, 130, 83, 99};

struct message {
	const uint8_t *p;
	uint8_t type;
	uint32_t requested, server, address; // address: the client's own
	char name[64];
};

static void keep_option(struct message *m, uint8_t code, const uint8_t *value, uint8_t len)
{
	if (code == TYPE && len == 1)
		m->type = value[0];
	else if (code == REQUESTED && len == 4)
		m->requested = get32(value);
	else if (code == SERVER && len == 4)
		m->server = get32(value);
	else if (code == NAME && len < sizeof m->name && memchr(value, '\n', len) == NULL)
		memcpy(m->name, value, len); // behind which there are zeros
}

static bool parse(struct message *m, const uint8_t *frame, uint32_t len)
{
	const uint8_t *udp = frame + ETHERNET + IP;
	if (len < UDP_HEADER + FIXED + 4 || get16(udp) != CLIENT_PORT || get16(udp + 2) != SERVER_PORT)
		return false;
	uint32_t size = get16(udp + 4);
	const uint8_t *p = udp + UDP_HEADER;
	if (size < UDP_HEADER + FIXED + 4 || size > len || p[0] != 1 || p[1] != 1 || p[2] != 6 ||
		memcmp(p + FIXED, cookie, 4) != 0 || memcmp(p + 28, frame + 6, 6) != 0)
		return false;
	*m = (struct message){.p = p, .address = get32(p + 12)};
	size -= UDP_HEADER;
	for (uint32_t i = FIXED + 4; i < size && p[i] != END;) {
		if (p[i] == 0) {
			i++;
			continue;
		}
		if (i + 1 >= size || i + 2 + p[i + 1] > size)
			return false;
		keep_option(m, p[i], p + i + 2, p[i + 1]);
		i += 2 + (uint32_t)p[i + 1];
	}
	return true;
}

static uint8_t *option32(uint8_t *p, uint8_t code, uint32_t value)
{
	p[0] = code;
	p[1] = 4;
	put32(p + 2, value);
	return p + 6;
}

static uint8_t *options(const struct net *n, uint8_t *p, uint8_t type, uint32_t address)
{
	memcpy(p, cookie, 4);
	memcpy(p + 4, (uint8_t[]){TYPE, 1, type}, 3);
	p = option32(p + 7, SERVER, n->s.start);
	if (address != 0)
		p = option32(p, LEASE, LEASE_SECONDS);
	if (type != NAK) {
		p = option32(p, MASK, n->s.mask);
		p = option32(p, ROUTER, n->s.start);
		p = option32(p, DNS, n->s.start);
		if (n->s.mtu != 1500) {
			memcpy(p, (uint8_t[]){MTU, 2, (uint8_t)(n->s.mtu >> 8), (uint8_t)n->s.mtu}, 4);
			p += 4;
		}
	}
	*p++ = END;
	return p;
}

// To the address that the client has, to the one that it is given, or to all (RFC 2131, 4.1).
static uint32_t send(const struct net *n, const struct message *m, uint8_t type, uint32_t address, uint8_t *reply)
{
	static const uint8_t all[6] = {255, 255, 255, 255, 255, 255};
	uint8_t *udp = reply + ETHERNET + IP, *p = udp + UDP_HEADER;
	memset(udp, 0, UDP_HEADER + SHORTEST);
	memcpy(p, m->p, 12);
	p[0] = 2;
	memset(p + 8, 0, 2);
	memcpy(p + 28, m->p + 28, 6);
	uint32_t own = type != NAK && host_guest(&n->s, m->address) ? m->address : 0;
	put32(p + 12, own);
	put32(p + 16, address);
	size_t size = (size_t)(options(n, p + FIXED, type, address) - p);
	size = UDP_HEADER + (size < SHORTEST ? SHORTEST : size);
	bool broadcast = own == 0 && (address == 0 || m->p[10] & 0x80);
	uint32_t to = broadcast ? UINT32_MAX : own != 0 ? own : address;
	put16(udp, SERVER_PORT);
	put16(udp + 2, CLIENT_PORT);
	put16(udp + 4, (uint16_t)size);
	uint32_t pseudo = (n->s.start >> 16) + (n->s.start & 0xffff) + (to >> 16) + (to & 0xffff) + UDP + (uint32_t)size;
	put16(udp + 6, checksum(udp, size, pseudo));
	return ipv4(n, reply, broadcast ? all : m->p + 28, to, UDP, (uint32_t)size);
}

static uint32_t request(const struct net *n, const struct client *c, const struct message *m, uint8_t *reply)
{
	if (m->server != 0 && m->server != n->s.start)
		return 0; // it chose another server
	uint32_t wish = m->requested != 0 ? m->requested : m->address;
	if (!lease_usable(c, wish))
		return send(n, m, NAK, 0, reply);
	lease_bind(c, wish, true);
	return send(n, m, ACK, wish, reply);
}

// With the owners locked.
static uint32_t answer(const struct net *n, const struct client *c, const struct message *m, uint8_t *reply)
{
	uint32_t address;
	switch (m->type) {
	case DISCOVER:
		if ((address = lease_find(c, m->requested)) == 0)
			return 0;
		lease_bind(c, address, false);
		return send(n, m, OFFER, address, reply);
	case REQUEST:
		return request(n, c, m, reply);
	}
	return 0;
}

uint32_t answer_dhcp(struct net *n, const uint8_t *frame, uint32_t len, uint8_t *reply)
{
	struct message m;
	// The system starts no DHCP server where the host's address is the subnet's own (farrow, native/mac-network).
	if (n->s.flags & NO_DHCP || n->s.start == n->s.subnet || !parse(&m, frame, len))
		return 0;
	struct client c = {&n->s, (uint64_t)get16(frame + 6) << 32 | get32(frame + 8), m.name};
	owners_lock();
	uint32_t size = answer(n, &c, &m, reply);
	owners_unlock();
	return size;
}
