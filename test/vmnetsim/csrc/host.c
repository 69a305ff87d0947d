// SPDX-License-Identifier: Apache-2.0

// The host's own side of a network, if the switch asks for it: what guests find there on a Mac. It answers ARP and ping
// for the host's address, and DHCP.
#include "host.h"

#include <string.h>

enum { ARP = 0x0806, IPV4 = 0x0800, ICMP = 1, ECHO_REQUEST = 8 };

void vmnetsim_host(int what)
{
	struct record *r = &control()->switches[SWITCH_host];
	if (r->preset == what)
		return; // another process came first, and the switch may have been flipped since
	r->preset = what;
	atomic_store(&r->value, what);
}

void host_mac(const struct net *n, uint8_t mac[6])
{
	mac[0] = 0x02;
	mac[1] = 'h';
	put32(mac + 2, n->s.start);
}

uint16_t checksum(const uint8_t *p, size_t len, uint32_t sum)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += get16(p + i);
	if (len % 2 != 0)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

bool host_guest(const struct settings *s, uint32_t a)
{
	return (a & s->mask) == s->subnet && a != s->subnet && a != s->start && a != (s->subnet | ~s->mask);
}

uint32_t ethernet(const struct net *n, uint8_t *reply, const uint8_t to[6], uint16_t type, uint32_t len)
{
	memcpy(reply, to, 6);
	host_mac(n, reply + 6);
	put16(reply + 12, type);
	return ETHERNET + len;
}

uint32_t ipv4(const struct net *n, uint8_t *reply, const uint8_t to_mac[6], uint32_t to, uint8_t protocol, uint32_t len)
{
	uint8_t *ip = reply + ETHERNET;
	memset(ip, 0, IP);
	ip[0] = 0x45;
	put16(ip + 2, (uint16_t)(IP + len));
	ip[8] = 64;
	ip[9] = protocol;
	put32(ip + 12, n->s.start);
	put32(ip + 16, to);
	put16(ip + 10, checksum(ip, IP, 0));
	return ethernet(n, reply, to_mac, IPV4, IP + len);
}

static uint32_t answer_arp(struct net *n, const uint8_t *frame, uint32_t len, uint8_t *reply)
{
	static const uint8_t request[8] = {0, 1, 8, 0, 6, 4, 0, 1};
	const uint8_t *arp = frame + ETHERNET;
	if (len < ETHERNET + 28 || memcmp(arp, request, 8) != 0 || memcmp(arp + 8, frame + 6, 6) != 0 ||
		get32(arp + 24) != n->s.start || get32(arp + 14) == n->s.start)
		return 0;
	uint8_t *out = reply + ETHERNET;
	memcpy(out, request, 8);
	out[7] = 2;
	host_mac(n, out + 8);
	put32(out + 14, n->s.start);
	memcpy(out + 18, arp + 8, 10);
	return ethernet(n, reply, frame + 6, ARP, 28);
}

static uint32_t answer_ping(struct net *n, const uint8_t *frame, uint32_t len, uint8_t *reply)
{
	const uint8_t *icmp = frame + ETHERNET + IP;
	uint32_t from = get32(frame + ETHERNET + 12);
	if (len < 8 || icmp[0] != ECHO_REQUEST || icmp[1] != 0 || checksum(icmp, len, 0) != 0 || !host_guest(&n->s, from))
		return 0;
	uint8_t *out = reply + ETHERNET + IP;
	memcpy(out, icmp, len);
	memset(out, 0, 4); // an echo reply
	put16(out + 2, checksum(out, len, 0));
	return ipv4(n, reply, frame + 6, from, ICMP, len);
}

// Whole IPv4 packets without options, for the host or for all.
static uint32_t answer_ipv4(struct net *n, const uint8_t *frame, uint32_t len, bool to_us, uint8_t *reply)
{
	const uint8_t *ip = frame + ETHERNET;
	if (len < ETHERNET + IP || ip[0] != 0x45 || (get16(ip + 6) & 0x3fff) != 0 || checksum(ip, IP, 0) != 0)
		return 0;
	uint32_t total = get16(ip + 2), to = get32(ip + 16);
	if (total < IP || total > len - ETHERNET)
		return 0;
	if (ip[9] == UDP && (to == UINT32_MAX || to == n->s.start) && SWITCH_VALUE(host) != HOST_WITHOUT_DHCP)
		return answer_dhcp(n, frame, total - IP, reply);
	if (ip[9] == ICMP && to_us && to == n->s.start)
		return answer_ping(n, frame, total - IP, reply);
	return 0;
}

uint32_t host_answer(struct net *n, const uint8_t *frame, uint32_t len, uint8_t *reply)
{
	uint8_t mac[6];
	host_mac(n, mac);
	bool to_us = memcmp(frame, mac, 6) == 0;
	if (n->s.subnet == 0 || len > n->s.mtu + ETHERNET || frame[6] & 1 || (!to_us && !(frame[0] & 1)))
		return 0;
	switch (get16(frame + 12)) {
	case ARP:
		return answer_arp(n, frame, len, reply);
	case IPV4:
		return answer_ipv4(n, frame, len, to_us, reply);
	}
	return 0;
}
