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

DEATH(release_value_of_dictionary, "xpc_release: over-release: the caller holds no reference")
{
	xpc_object_t d = describe(VMNET_HOST_MODE);
	xpc_release(xpc_dictionary_get_value(d, vmnet_operation_mode_key));
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

DEATH(block_without_isa, "is not a block")
{
	struct waiter w;
	waiter_start(&w);
	w.b.isa = NULL;
	start_with(&w.b);
}

DEATH(block_without_flag, "global block without BLOCK_IS_GLOBAL")
{
	struct waiter w;
	waiter_start(&w);
	w.b.flags = 0;
	start_with(&w.b);
}

DEATH(block_without_invoke, "block without invoke")
{
	struct waiter w;
	waiter_start(&w);
	w.b.invoke = NULL;
	start_with(&w.b);
}

DEATH(block_without_descriptor, "block without a descriptor")
{
	struct waiter w;
	waiter_start(&w);
	w.b.descriptor = NULL;
	start_with(&w.b);
}

static int copies, disposals;
static void count_copy(void *to, const void *from) { (void)to, (void)from, copies++; }
static void count_disposal(const void *b) { (void)b, disposals++; }

CASE(block_copies)
{
	struct block_descriptor d = {0, sizeof(struct block), count_copy, count_disposal};
	struct block stack = {_NSConcreteStackBlock, BLOCK_HAS_COPY_DISPOSE, 0, (void (*)(void))count_disposal, &d};
	struct block *heap = _Block_copy(&stack);
	CHECK(heap != &stack && heap->isa == _NSConcreteMallocBlock);
	CHECK(_Block_copy(heap) == heap);
	EQUAL(1, copies);
	_Block_release(heap);
	EQUAL(0, disposals);
	_Block_release(heap);
	EQUAL(1, disposals);
	stack.isa = _NSConcreteGlobalBlock;
	stack.flags = BLOCK_IS_GLOBAL;
	CHECK(_Block_copy(&stack) == &stack);
	_Block_release(&stack);
	CHECK(_Block_copy(NULL) == NULL);
}

struct seen {
	struct block b;
	int n, stop_at;
	uint64_t numbers;
};

static bool on_entry(struct seen *s, const char *key, xpc_object_t v)
{
	CHECK(key[0] != 0);
	if (xpc_get_type(v) == &_xpc_type_uint64)
		s->numbers += xpc_uint64_get_value(v);
	return ++s->n != s->stop_at;
}

CASE(dictionaries)
{
	xpc_object_t d = describe(0), inner = describe(0);
	static struct block_descriptor desc = {0, sizeof(struct seen), NULL, NULL};
	const uint8_t uuid[16] = {1, 2, 3};
	xpc_dictionary_set_uint64(d, "u", 7);
	xpc_dictionary_set_uint64(d, "u", 8); // replaces
	xpc_dictionary_set_int64(d, "i", -3);
	xpc_dictionary_set_bool(d, "b", true);
	xpc_dictionary_set_string(d, "s", "text");
	xpc_dictionary_set_uuid(d, "id", uuid);
	xpc_dictionary_set_value(d, "d", inner);
	xpc_release(inner); // d has its own
	EQUAL(6, xpc_dictionary_get_count(d));
	EQUAL(8, xpc_dictionary_get_uint64(d, "u"));
	EQUAL(-3, xpc_dictionary_get_int64(d, "i"));
	EQUAL(0, xpc_dictionary_get_uint64(d, "i")); // of another type
	CHECK(xpc_dictionary_get_bool(d, "b"));
	CHECK(strcmp(xpc_dictionary_get_string(d, "s"), "text") == 0);
	CHECK(xpc_dictionary_get_string(d, "none") == NULL);
	EQUAL(4, xpc_string_get_length(xpc_dictionary_get_value(d, "s")));
	CHECK(memcmp(xpc_dictionary_get_uuid(d, "id"), uuid, 16) == 0);
	CHECK(memcmp(xpc_uuid_get_bytes(xpc_dictionary_get_value(d, "id")), uuid, 16) == 0);
	CHECK(xpc_get_type(xpc_dictionary_get_value(d, "d")) == &_xpc_type_dictionary);
	CHECK(xpc_bool_get_value(xpc_dictionary_get_value(d, "b")));
	EQUAL(-3, xpc_int64_get_value(xpc_dictionary_get_value(d, "i")));
	struct seen s = {{_NSConcreteGlobalBlock, BLOCK_IS_GLOBAL, 0, (void (*)(void))on_entry, &desc}, 0, 0, 0};
	CHECK(xpc_dictionary_apply(d, &s.b));
	EQUAL(6, s.n);
	EQUAL(8, s.numbers);
	s.n = 0;
	s.stop_at = 2;
	CHECK(!xpc_dictionary_apply(d, &s.b));
	EQUAL(2, s.n);
	CHECK(strcmp(xpc_string_get_string_ptr(xpc_dictionary_get_value(d, "s")), "text") == 0);
	CHECK(xpc_string_get_string_ptr(d) == NULL); // of another type
	xpc_object_t copy = xpc_dictionary_create((const char *[]){"inner", "again"}, (xpc_object_t[]){d, d}, 2);
	CHECK(xpc_dictionary_get_value(copy, "again") == d);
	xpc_release(copy);
	xpc_release(xpc_retain(d));
	xpc_release(d);
}

CASE(interface_list)
{
	xpc_object_t a = vmnet_copy_shared_interface_list();
	CHECK(xpc_get_type(a) == &_xpc_type_array);
	EQUAL(2, xpc_array_get_count(a));
	CHECK(strcmp(xpc_array_get_string(a, 0), "en0") == 0);
	CHECK(xpc_get_type(xpc_array_get_value(a, 1)) == &_xpc_type_string);
	xpc_release(a);
	flip("result.vmnet_copy_shared_interface_list", VMNET_FAILURE, 1, 0);
	CHECK(vmnet_copy_shared_interface_list() == NULL);
}

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
		dispatch_async_f(q, &o, ordered);
	while (!atomic_load(&o.done))
		usleep(100);
	CHECK(!pthread_equal(o.thread, pthread_self()));
	UNTIL(live(LIVE_threads) == 0);
	EQUAL(1, live(LIVE_queues));
	dispatch_retain(q);
	dispatch_release(q);
	dispatch_async_f(q, &o, ordered); // a new thread
	dispatch_release(q);              // with work to do
}
