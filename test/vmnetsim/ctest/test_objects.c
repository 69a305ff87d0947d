// SPDX-License-Identifier: Apache-2.0

// Objects, blocks and queues.
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

DEATH(over_release_dictionary, "xpc_release: use of an object after its last release")
{
	xpc_object_t d = describe(0);
	xpc_release(d);
	xpc_release(d);
}

DEATH(use_after_release, "xpc_dictionary_set_uint64: use of an object after its last release")
{
	xpc_object_t d = describe(0);
	xpc_release(d);
	xpc_dictionary_set_uint64(d, "x", 1);
}

DEATH(release_dictionary_as_cf, "CFRelease: wrong kind of object") { CFRelease(describe(0)); }
DEATH(release_null, "xpc_release: the object is NULL") { xpc_release(NULL); }
DEATH(release_nothing, "is not an object") { xpc_release(calloc(1, 256)); }

DEATH(over_release_queue, "dispatch_release: use of an object after its last release")
{
	dispatch_queue_t q = dispatch_queue_create("q", NULL);
	dispatch_release(q);
	dispatch_release(q);
}

DEATH(concurrent_queue, "only serial queues") { dispatch_queue_create("q", &(int){0}); }

static void on_start_releasing(struct waiter *w, vmnet_return_t st, struct xpc *params)
{
	(void)w;
	(void)st;
	xpc_release(params);
}

DEATH(release_handlers_params, "xpc_release: over-release")
{
	struct waiter w;
	waiter_start(&w);
	w.b.invoke = (void (*)(void))on_start_releasing;
	xpc_object_t d = describe(VMNET_SHARED_MODE);
	vmnet_start_interface(d, dispatch_queue_create("q", NULL), &w.b);
	WAIT(&w, 1);
}

static void start_with(struct block *b)
{
	vmnet_start_interface(describe(VMNET_SHARED_MODE), dispatch_queue_create("q", NULL), b);
}

#define BAD_BLOCK(name, message, change) \
	DEATH(name, message) \
	{ \
		struct waiter w; \
		waiter_start(&w); \
		change; \
		start_with(&w.b); \
	}

BAD_BLOCK(block_without_isa, "is not a global block", w.b.isa = NULL)
BAD_BLOCK(block_without_flag, "global block without BLOCK_IS_GLOBAL", w.b.flags = 0)
BAD_BLOCK(block_without_invoke, "block without invoke", w.b.invoke = NULL)
BAD_BLOCK(block_without_descriptor, "block without a descriptor", w.b.descriptor = NULL)

struct order {
	pthread_t thread;
	int n;
	_Atomic bool done;
};

static void ordered(void *p)
{
	struct order *o = p;
	if (o->n++ == 0)
		o->thread = pthread_self();
	if (o->n == 100)
		atomic_store(&o->done, true);
}

// One task at a time, in order, on a thread that ends when there is no work.
CASE(queue_is_serial)
{
	static struct order o;
	dispatch_queue_t q = dispatch_queue_create("q", NULL);
	for (int i = 0; i < 100; i++)
		queue_work(q, &o, ordered);
	while (!atomic_load(&o.done))
		usleep(100);
	CHECK(!pthread_equal(o.thread, pthread_self()));
	UNTIL(live(LIVE_threads) == 0);
	EQUAL(1, live(LIVE_queues));
	queue_work(q, &o, ordered); // a new thread
	dispatch_release(q);              // with work to do
}
