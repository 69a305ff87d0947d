// SPDX-License-Identifier: Apache-2.0

// A learning bridge between the interfaces of a network and the host's port.
#include "internal.h"

static uint64_t mac_at(const uint8_t *p)
{
	uint64_t v = 0;
	memcpy(&v, p, 6);
	return v;
}

// The place of an address in the table, or the empty one where it belongs. No address is 0, since that marks empty ones.
static struct address *place(struct net *n, uint64_t mac)
{
	size_t i = (mac * 0x9e3779b97f4a7c15u) >> 53;
	while (n->table[i].mac != 0 && n->table[i].mac != mac)
		i = (i + 1) % ADDRESSES;
	return &n->table[i];
}
_Static_assert(ADDRESSES == 1 << (64 - 53), "the hash has as many bits as the table");

static void learn(struct net *n, uint64_t mac, struct iface *port)
{
	if (mac == 0 || mac & 1)
		return;
	struct address *a = place(n, mac);
	if (a->mac == 0) {
		if (n->addresses >= ADDRESSES / 2) { // a flood of addresses: begin anew
			memset(n->table, 0, ADDRESSES * sizeof *n->table);
			n->addresses = 0;
			a = place(n, mac);
		}
		a->mac = mac;
		n->addresses++;
	}
	a->port = port;
}

void bridge_begin(struct batch *b, struct net *n, struct iface *from)
{
	b->net = n;
	b->from = from;
	b->no_unicast = SWITCH_VALUE(no_unicast) != 0;
	b->kicked = 0;
	b->dropped = b->filtered = b->to_host = 0;
	pthread_mutex_lock(&n->lock);
}

// vmnet drops IPv4 of guests from other than their private addresses, in host and shared mode.
static bool foreign(const struct settings *s, const uint8_t *frame, uint32_t len)
{
	if (s->subnet == 0 || frame[12] != 0x08 || frame[13] != 0x00 || len < 30)
		return false;
	uint32_t source;
	memcpy(&source, frame + 26, 4);
	source = __builtin_bswap32(source);
	return source != 0 && (source & s->mask) != s->subnet;
}

static void to_host(struct batch *b, const uint8_t *frame, uint32_t len)
{
	b->to_host++;
	if (SWITCH_VALUE(host) == HOST_OFF)
		return;
	uint8_t reply[HOST_ANSWER];
	uint32_t size = host_answer(b->net, frame, len, reply);
	if (size == 0)
		return;
	struct iface *from = b->from;
	b->from = HOST_PORT;
	bridge_forward(b, reply, size);
	b->from = from;
	gauge_add(GAUGE_frames_from_host, 1);
}

static void to_iface(struct batch *b, struct iface *to, const uint8_t *frame, uint32_t len)
{
	if (to == b->from || (b->from != HOST_PORT && (to->isolated || b->from->isolated)))
		return;
	if (len > to->max_packet || !ring_put(&to->ring, frame, len)) {
		b->dropped++;
		return;
	}
	if (!to->kicked) {
		to->kicked = true;
		b->kick[b->kicked++] = to;
	}
}

void bridge_forward(struct batch *b, const uint8_t *frame, uint32_t len)
{
	struct net *n = b->net;
	if (b->from != HOST_PORT && foreign(&n->s, frame, len)) {
		b->filtered++;
		return;
	}
	learn(n, mac_at(frame + 6), b->from);
	uint64_t to = mac_at(frame);
	bool group = to & 1;
	struct iface *port = group || to == 0 ? NULL : place(n, to)->port;
	if (port == HOST_PORT) {
		if (b->from != HOST_PORT)
			to_host(b, frame, len);
		return;
	}
	if (port == NULL && b->from != HOST_PORT)
		to_host(b, frame, len);
	if (b->no_unicast && !group && b->from != HOST_PORT)
		return;
	if (port != NULL) {
		to_iface(b, port, frame, len);
		return;
	}
	for (int i = 0; i < n->members; i++)
		to_iface(b, n->member[i], frame, len);
}

void bridge_end(struct batch *b)
{
	for (int i = 0; i < b->kicked; i++) {
		b->kick[i]->kicked = false;
		source_kick(b->kick[i]);
	}
	pthread_mutex_unlock(&b->net->lock);
	gauge_add(GAUGE_frames_dropped, b->dropped);
	gauge_add(GAUGE_frames_filtered, b->filtered);
	gauge_add(GAUGE_frames_to_host, b->to_host);
}

void bridge_add(struct net *n, struct iface *i)
{
	pthread_mutex_lock(&n->lock);
	n->member[n->members++] = i;
	pthread_mutex_unlock(&n->lock);
}

void bridge_remove(struct net *n, struct iface *i)
{
	pthread_mutex_lock(&n->lock);
	for (int k = 0; k < n->members; k++)
		if (n->member[k] == i) {
			n->member[k] = n->member[--n->members];
			break;
		}
	for (int k = 0; k < ADDRESSES; k++) // the addresses stay in the table, as unknown ones
		if (n->table[k].port == i)
			n->table[k].port = NULL;
	struct source *s = i->source;
	i->source = NULL;
	pthread_mutex_unlock(&n->lock);
	if (s != NULL)
		source_drop(s);
}
