// SPDX-License-Identifier: Apache-2.0

// Starting and stopping interfaces.
#include "internal.h"

#include <sched.h>
#include <stdlib.h>

// What a start's or stop's handler will be called with, on its queue.
struct answer {
	struct queue *queue;
	struct block *block;
	vmnet_return_t status;
	struct iface *iface;
	struct xpc *params;
};

static struct answer *answer_new(struct queue *q, struct block *b)
{
	struct answer *a = need(calloc(1, sizeof *a));
	a->queue = q;
	object_ref(q);
	a->block = block_hold(b);
	return a;
}

static void answer_free(struct answer *a)
{
	if (a->params != NULL)
		object_unref(a->params);
	block_drop(a->block);
	object_unref(a->queue);
	free(a);
}

// Which faults apply to a call; taken once at its beginning.
struct faults {
	int64_t null, handler, silent;
};

// Interfaces of this process that count, to tell identifiers in use.
static pthread_mutex_t counted_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iface *counted[MEMBERS];

static vmnet_return_t count_iface(struct iface *i)
{
	vmnet_return_t st = VMNET_SUCCESS;
	pthread_mutex_lock(&counted_lock);
	int slot = -1;
	for (int k = 0; k < MEMBERS; k++) {
		if (counted[k] == NULL)
			slot = k;
		else if (memcmp(counted[k]->id, i->id, 16) == 0)
			st = VMNET_FAILURE; // an identifier belongs to one interface
	}
	if (st == VMNET_SUCCESS)
		st = slot < 0 ? VMNET_FAILURE : interface_count_up();
	if (st == VMNET_SUCCESS)
		counted[slot] = i;
	pthread_mutex_unlock(&counted_lock);
	return st;
}

static void uncount_iface(struct iface *i)
{
	pthread_mutex_lock(&counted_lock);
	for (int k = 0; k < MEMBERS; k++)
		if (counted[k] == i)
			counted[k] = NULL;
	live_add(LIVE_interfaces, -1);
	pthread_mutex_unlock(&counted_lock);
}

static void run_started(void *p)
{
	struct answer *a = p;
	struct iface *i = a->iface;
	if (i != NULL) {
		if (a->status == VMNET_SUCCESS)
			bridge_add(i->net, i);
		atomic_store(&i->state, a->status == VMNET_SUCCESS ? RUNNING : FAILED);
	}
	((start_invoke)a->block->invoke)(a->block, a->status, a->params);
	answer_free(a);
}

// Gives the interface its network and its ring. On failure it holds nothing.
static vmnet_return_t set_up(struct iface *i, struct net *n, struct description *d)
{
	if (n != NULL)
		d->s = n->s;
	describe_apply(i, d);
	vmnet_return_t st = count_iface(i);
	if (st != VMNET_SUCCESS)
		return st;
	if (n != NULL && !net_use(n))
		st = VMNET_INVALID_ARGUMENT;
	else if (n == NULL)
		n = net_join(&d->s, &st);
	if (st != VMNET_SUCCESS) {
		uncount_iface(i);
		return st;
	}
	i->net = n;
	ring_open(&i->ring, d->tso ? RING_BYTES_TSO : RING_BYTES);
	return VMNET_SUCCESS;
}

// An interface on n, or a plain one for NULL.
static struct iface *start(struct net *n, bool ok, struct description *d, struct queue *q, struct block *b,
	struct faults f)
{
	if (f.null == 2 || !queue_lives(q) || b == NULL)
		return NULL; // and there is no one to tell
	struct answer *a = answer_new(q, b);
	if (f.null != 0 || !ok) {
		a->status = !ok ? VMNET_INVALID_ARGUMENT : f.handler != 0 ? (vmnet_return_t)f.handler : VMNET_FAILURE;
		queue_after(q, SWITCH_start_delay_ms, a, run_started);
		return NULL;
	}
	struct iface *i = iface_new();
	if (f.silent != 0) {
		answer_free(a);
		return i;
	}
	a->iface = i;
	a->status = f.handler != 0 ? (vmnet_return_t)f.handler : set_up(i, n, d);
	if (a->status == VMNET_SUCCESS)
		a->params = parameters(i, d);
	queue_after(q, SWITCH_start_delay_ms, a, run_started);
	return i;
}

interface_ref vmnet_start_interface(xpc_object_t desc, dispatch_queue_t q, struct block *b)
{
	COUNT(vmnet_start_interface);
	struct faults f = {FAULT(null, vmnet_start_interface), FAULT(handler, vmnet_start_interface),
		FAULT(silent, vmnet_start_interface)};
	struct description d = {0};
	bool ok = object_lives(desc, TYPE_DICTIONARY) && describe_plain(desc, &d);
	return start(NULL, ok, &d, q, b, f);
}

#ifndef NO_MACOS26
interface_ref vmnet_interface_start_with_network(vmnet_network_ref n, xpc_object_t desc, dispatch_queue_t q,
	struct block *b)
{
	COUNT(vmnet_interface_start_with_network);
	struct faults f = {FAULT(null, vmnet_interface_start_with_network), FAULT(handler, vmnet_interface_start_with_network),
		FAULT(silent, vmnet_interface_start_with_network)};
	struct description d = {0};
	bool ok = object_lives(n, TYPE_NETWORK) && object_lives(desc, TYPE_DICTIONARY) && describe_on_network(desc, &d);
	d.isolated = false; // the key is taken and changes nothing
	return start(n, ok, &d, q, b, f);
}
#endif

// Takes a stopped interface off the bridge once no call is under way.
static void take_off(struct iface *i)
{
	while (atomic_load(&i->users) > 0)
		sched_yield();
	bridge_remove(i->net, i);
	pthread_mutex_lock(&i->read_lock);
	ring_close(&i->ring);
	pthread_mutex_unlock(&i->read_lock);
}

static void let_go(struct iface *i)
{
	uncount_iface(i);
	net_leave(i->net);
	i->net = NULL;
}

static void run_stopped(void *p)
{
	struct answer *a = p;
	let_go(a->iface);
	((status_invoke)a->block->invoke)(a->block, a->status);
	answer_free(a);
}

vmnet_return_t vmnet_stop_interface(interface_ref i, dispatch_queue_t q, struct block *b)
{
	COUNT(vmnet_stop_interface);
	int64_t status = FAULT(handler, vmnet_stop_interface);
	bool silent = FAULT(silent, vmnet_stop_interface) != 0;
	if (!queue_lives(q) || b == NULL)
		return VMNET_INVALID_ARGUMENT;
	vmnet_return_t st = iface_enter(i);
	bool dead = st != VMNET_SUCCESS && i != NULL && atomic_load(&i->dead) == st;
	if (st != VMNET_SUCCESS && !dead)
		return st;
	int running = RUNNING;
	bool first = atomic_compare_exchange_strong(&i->state, &running, STOPPED);
	if (!dead)
		iface_leave(i);
	if (!first)
		return dead ? st : VMNET_INVALID_ACCESS;
	take_off(i);
	if (dead || silent) { // what is dead is gone from the system already
		let_go(i);
		return dead ? st : VMNET_SUCCESS;
	}
	struct answer *a = answer_new(q, b);
	a->iface = i;
	a->status = status != 0 ? (vmnet_return_t)status : VMNET_SUCCESS;
	queue_after(q, SWITCH_stop_delay_ms, a, run_stopped);
	return VMNET_SUCCESS;
}
