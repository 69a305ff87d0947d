// SPDX-License-Identifier: Apache-2.0

// The networks of this process, and which interfaces share one.
#include "internal.h"

#include <stdlib.h>

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct net *networks;

void ring_open(struct ring *r, size_t size)
{
	r->memory = need(malloc(size));
	r->size = size;
}

void ring_close(struct ring *r)
{
	free(r->memory);
	r->memory = NULL;
	atomic_store(&r->head, atomic_load(&r->tail));
}

// With the registry locked.
static void unlink_net(struct net *n)
{
	for (struct net **p = &networks; *p != NULL; p = &(*p)->next)
		if (*p == n) {
			*p = n->next;
			break;
		}
	if (n->owner >= 0)
		owner_free(n->owner);
	n->owner = -1;
}

static void fini(void *p)
{
	struct net *n = p;
	pthread_mutex_lock(&registry);
	unlink_net(n);
	pthread_mutex_unlock(&registry);
	free(n->table);
	n->table = NULL;
	pthread_mutex_destroy(&n->lock);
	live_add(LIVE_networks, -1);
}

static struct net *new_locked(const struct settings *asked, vmnet_return_t *status)
{
	struct settings s = *asked;
	int owner = -1;
	if (s.prefix6_length == 0 && s.mode == VMNET_SHARED_MODE) {
		uint64_t r = random64();
		s.prefix6[0] = 0xfd;
		memcpy(s.prefix6 + 1, &r, 7);
		s.prefix6_length = 64;
	}
	// Bridged networks and isolated ones without addresses own no subnet.
	bool needs_subnet = s.mode != VMNET_BRIDGED_MODE && (!s.has_id || s.asked);
	*status = needs_subnet ? owner_claim(&s, &owner) : VMNET_SUCCESS;
	if (*status != VMNET_SUCCESS)
		return NULL;
	struct net *n = object_new(sizeof *n, TYPE_NETWORK, fini);
	n->asked = *asked;
	n->s = s;
	n->owner = owner;
	n->table = need(calloc(ADDRESSES, sizeof *n->table));
	pthread_mutex_init(&n->lock, NULL);
	n->next = networks;
	networks = n;
	live_add(LIVE_networks, 1);
	return n;
}

struct net *net_new(const struct settings *s, vmnet_return_t *status)
{
	pthread_mutex_lock(&registry);
	struct net *n = new_locked(s, status);
	pthread_mutex_unlock(&registry);
	return n;
}

// Whether a plain interface that asks for s belongs to n.
static bool same_network(const struct net *n, const struct settings *s)
{
	if (n->s.kind != KIND_INTERFACE || n->s.mode != s->mode || n->s.has_id != s->has_id)
		return false;
	if (s->has_id)
		return memcmp(n->s.network_id, s->network_id, 16) == 0;
	if (s->mode == VMNET_BRIDGED_MODE)
		return strcmp(n->s.external, s->external) == 0;
	if (!s->asked)
		return !n->asked.asked;
	const struct settings *a = n->asked.asked ? &n->asked : &n->s;
	return a->start == s->start && a->end == s->end && a->mask == s->mask;
}

struct net *net_join(const struct settings *s, vmnet_return_t *status)
{
	pthread_mutex_lock(&registry);
	struct net *n = networks;
	while (n != NULL && !same_network(n, s))
		n = n->next;
	if (n != NULL) {
		object_ref(n);
		*status = VMNET_SUCCESS;
	} else if ((n = new_locked(s, status)) != NULL) {
		object_keep(n);
	}
	if (n != NULL)
		n->users++;
	pthread_mutex_unlock(&registry);
	return n;
}

bool net_use(struct net *n)
{
	if (!object_lives(n, TYPE_NETWORK) || atomic_load(&n->o.ext) <= 0 || !object_try_ref(n))
		return false;
	pthread_mutex_lock(&registry);
	n->users++;
	pthread_mutex_unlock(&registry);
	return true;
}

void net_leave(struct net *n)
{
	pthread_mutex_lock(&registry);
	if (--n->users == 0 && n->s.kind == KIND_INTERFACE)
		unlink_net(n); // here, so that a start that comes next finds the subnet free
	else if (n->users == 0)
		rules_forget(n->s.subnet); // the network goes idle, and what it was made with is lost
	pthread_mutex_unlock(&registry);
	object_unref(n);
}
