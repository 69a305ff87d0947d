// SPDX-License-Identifier: Apache-2.0

// Frames and events of interfaces.
#include "internal.h"

#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

enum { MAGIC = 0x69666163 };

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iface *all; // for ever

struct iface *iface_new(void)
{
	struct iface *i = need(aligned_alloc(64, sizeof *i));
	memset(i, 0, sizeof *i);
	i->magic = MAGIC;
	pthread_mutex_init(&i->read_lock, NULL);
	i->ordinal = 1 + atomic_fetch_add(&control()->gauges[GAUGE_interfaces_started].value, 1);
	pthread_mutex_lock(&list_lock);
	i->next = all;
	all = i;
	pthread_mutex_unlock(&list_lock);
	return i;
}

vmnet_return_t iface_dies(struct iface *i)
{
	int64_t n = SWITCH_VALUE(die_ordinal);
	if (__builtin_expect(n != 0, 0) && (n == -1 || n == i->ordinal))
		atomic_store(&i->dead, (uint32_t)SWITCH_VALUE(die_status));
	uint32_t dead = atomic_load_explicit(&i->dead, memory_order_relaxed);
	return dead == 0 ? VMNET_SUCCESS : dead;
}

vmnet_return_t iface_enter(struct iface *i)
{
	if (i == NULL || i->magic != MAGIC)
		return VMNET_INVALID_ARGUMENT;
	atomic_fetch_add(&i->users, 1);
	vmnet_return_t st = VMNET_SUCCESS;
	int state = atomic_load(&i->state);
	if (__builtin_expect(state != RUNNING, 0))
		st = state == STOPPED ? VMNET_INVALID_ACCESS : VMNET_SETUP_INCOMPLETE;
	else
		st = iface_dies(i);
	if (st != VMNET_SUCCESS)
		iface_leave(i);
	return st;
}

void iface_leave(struct iface *i) { atomic_fetch_sub(&i->users, 1); }

// Each registered callback has a source. Its task is in the queue at most once: that is how events coalesce.
struct source {
	struct task task;
	struct queue *queue;
	struct block *block;
	_Atomic bool pending;
	_Atomic int refs; // the interface's, and the task's while it is pending
	uint64_t estimate;
};

void source_drop(struct source *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	block_drop(s->block);
	object_unref(s->queue);
	free(s);
}

// Runs on the queue. An event that is on its way is delivered even if the callback has been taken off meanwhile.
static void deliver(void *p)
{
	struct source *s = p;
	wait_for(SWITCH_event_delay_us, SWITCH_VALUE(event_delay_us), 1000);
	struct xpc *event = xpc_new_dictionary();
	xpc_put_number(event, vmnet_estimated_packets_available_key, TYPE_UINT64, s->estimate);
	atomic_store(&s->pending, false);
	gauge_add(GAUGE_events, 1);
	((event_invoke)s->block->invoke)(s->block, VMNET_INTERFACE_PACKETS_AVAILABLE, event);
	object_unref(event);
	source_drop(s);
}

static bool lost(void)
{
	static _Atomic int64_t n;
	int64_t every = SWITCH_VALUE(event_lose_every);
	return every > 0 && (atomic_fetch_add(&n, 1) + 1) % every == 0;
}

void source_kick(struct iface *i)
{
	struct source *s = i->source;
	if (s == NULL || atomic_load_explicit(&i->dead, memory_order_relaxed) != 0 || atomic_exchange(&s->pending, true))
		return;
	if (lost()) {
		atomic_store(&s->pending, false);
		gauge_add(GAUGE_events_lost, 1);
		return;
	}
	s->estimate = ring_count(&i->ring);
	atomic_fetch_add(&s->refs, 1);
	queue_push(s->queue, &s->task);
}

static struct source *source_new(struct queue *q, struct block *b)
{
	struct source *s = need(calloc(1, sizeof *s));
	s->task.work = deliver;
	s->task.context = s;
	s->queue = q;
	object_ref(q);
	s->block = block_hold(b);
	atomic_init(&s->refs, 1);
	return s;
}

vmnet_return_t vmnet_interface_set_event_callback(interface_ref i, uint32_t mask, dispatch_queue_t q, struct block *b)
{
	COUNT(vmnet_interface_set_event_callback);
	int64_t fault = FAULT(result, vmnet_interface_set_event_callback);
	if (fault != 0)
		return (vmnet_return_t)fault;
	if ((q == NULL) != (b == NULL) || (b != NULL && (mask != VMNET_INTERFACE_PACKETS_AVAILABLE || !queue_lives(q))))
		return VMNET_INVALID_ARGUMENT;
	vmnet_return_t st = iface_enter(i);
	if (st != VMNET_SUCCESS)
		return st;
	struct source *s = b == NULL ? NULL : source_new(q, b);
	pthread_mutex_lock(&i->net->lock);
	struct source *old = i->source;
	i->source = s;
	pthread_mutex_unlock(&i->net->lock);
	if (old != NULL)
		source_drop(old);
	iface_leave(i);
	return VMNET_SUCCESS;
}
