// SPDX-License-Identifier: Apache-2.0

// The leases of all networks, in the control file, so that they outlive the process as bootpd's do; and the text file that
// bootpd keeps them in, dhcpd_leases beside the control file.
#include "host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OFFER_MS = 30000, LEASE_MS = 3600000, SEARCHED = 4096 };

// The lease of a MAC address, or the one of an address for mac 0.
static struct lease *leased(const struct client *c, uint64_t mac, uint32_t address)
{
	for (int i = 0; i < LEASES; i++) {
		struct lease *l = &control()->leases[i];
		uint64_t its = (uint64_t)atomic_load(&l->mac);
		if (its != 0 && atomic_load(&l->subnet) == c->net->subnet && (mac != 0 ? its == mac : atomic_load(&l->address) == address))
			return l;
	}
	return NULL;
}

// The reservation of a MAC address, or the one of an address for mac 0.
static const struct rule *reserved(const struct client *c, uint64_t mac, uint32_t address)
{
	for (int i = 0; i < RULES; i++) {
		const struct rule *r = &control()->rules[i];
		if (atomic_load(&r->kind) == RULE_RESERVATION && atomic_load(&r->subnet) == c->net->subnet &&
			(mac != 0 ? (uint64_t)atomic_load(&r->mac) == mac : atomic_load(&r->address) == address))
			return r;
	}
	return NULL;
}

bool lease_usable(const struct client *c, uint32_t a)
{
	const struct rule *r = reserved(c, c->mac, 0);
	if (r != NULL)
		return atomic_load(&r->address) == a;
	if (a <= c->net->start || a > c->net->end || reserved(c, 0, a) != NULL)
		return false;
	struct lease *l = leased(c, 0, a);
	return l == NULL || (uint64_t)atomic_load(&l->mac) == c->mac || atomic_load(&l->expires_ms) < now_ms();
}

uint32_t lease_find(const struct client *c, uint32_t wish)
{
	const struct rule *r = reserved(c, c->mac, 0);
	if (r != NULL)
		return (uint32_t)atomic_load(&r->address);
	struct lease *l = leased(c, c->mac, 0);
	if (l != NULL && lease_usable(c, (uint32_t)atomic_load(&l->address)))
		return (uint32_t)atomic_load(&l->address);
	if (lease_usable(c, wish))
		return wish;
	uint32_t first = c->net->start + 1, last = c->net->end - first < SEARCHED ? c->net->end : first + SEARCHED;
	for (int again = 0; again < 2; again++) // one that was not leased before is better
		for (uint32_t a = first; a <= last; a++)
			if (lease_usable(c, a) && (again || leased(c, 0, a) == NULL))
				return a;
	return 0;
}

// As bootpd writes it: bytes of MAC addresses without leading zeros, the end in seconds.
static void write_one(FILE *f, const struct lease *l)
{
	char address[16], mac[18];
	uint64_t m = (uint64_t)atomic_load(&l->mac);
	format_ipv4((uint32_t)atomic_load(&l->address), address);
	snprintf(mac, sizeof mac, "%x:%x:%x:%x:%x:%x", (unsigned)(m >> 40) & 255, (unsigned)(m >> 32) & 255,
		(unsigned)(m >> 24) & 255, (unsigned)(m >> 16) & 255, (unsigned)(m >> 8) & 255, (unsigned)m & 255);
	fputs("{\n", f);
	if (l->name[0] != 0)
		fprintf(f, "\tname=%s\n", l->name);
	fprintf(f, "\tip_address=%s\n\thw_address=1,%s\n\tidentifier=1,%s\n\tlease=0x%" PRIx64 "\n}\n", address, mac, mac,
		(uint64_t)(atomic_load(&l->expires_ms) / 1000));
}

static void write_file(void)
{
	char path[4200], new[4210];
	if (control_dir()[0] == 0)
		return;
	snprintf(path, sizeof path, "%s/dhcpd_leases", control_dir());
	snprintf(new, sizeof new, "%s.new", path);
	FILE *f = fopen(new, "w");
	if (f == NULL)
		return; // the directory has gone, with its user
	for (int i = 0; i < LEASES; i++) {
		const struct lease *l = &control()->leases[i];
		if (atomic_load(&l->mac) != 0 && atomic_load(&l->given))
			write_one(f, l);
	}
	if (fclose(f) == 0)
		rename(new, path);
}

// The client's own record, else an unused one, else the one that ended first.
static struct lease *place(const struct client *c)
{
	struct lease *l = leased(c, c->mac, 0), *first = &control()->leases[0];
	if (l != NULL)
		return l;
	for (int i = 0; i < LEASES; i++) {
		l = &control()->leases[i];
		if (atomic_load(&l->mac) == 0)
			return l;
		if (atomic_load(&l->expires_ms) < atomic_load(&first->expires_ms))
			first = l;
	}
	return first;
}

void lease_bind(const struct client *c, uint32_t address, bool given)
{
	struct lease *old = leased(c, 0, address);
	if (old != NULL && (uint64_t)atomic_load(&old->mac) != c->mac)
		atomic_store(&old->mac, 0);
	struct lease *l = place(c);
	bool same = l == old && atomic_load(&l->given); // which an offer does not shorten
	if (same && !given && atomic_load(&l->expires_ms) > now_ms() + OFFER_MS)
		return;
	atomic_store(&l->mac, (int64_t)c->mac);
	atomic_store(&l->subnet, c->net->subnet);
	atomic_store(&l->address, address);
	atomic_store(&l->expires_ms, now_ms() + (given ? LEASE_MS : OFFER_MS));
	atomic_store(&l->given, given);
	snprintf(l->name, sizeof l->name, "%s", c->name);
	if (given)
		write_file();
}
