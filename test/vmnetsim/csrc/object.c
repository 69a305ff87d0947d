// SPDX-License-Identifier: Apache-2.0

// Reference-counted objects that notice an over-release and a use after the last release.
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { ALIVE = 0x6f626a31, DEAD = 0x64656164 };

// Dead objects keep their header for a while, so that a late use meets DEAD and not other memory.
enum { GRAVES = 4096 };
static pthread_mutex_t graves_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *oldest, **newest = &oldest;
static int graves;

void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("vmnetsim: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	fflush(stderr);
	abort();
}

void *need(void *memory)
{
	if (memory == NULL)
		die("out of memory");
	return memory;
}

uint64_t random64(void)
{
	uint64_t v;
	if (getrandom(&v, sizeof v, 0) != sizeof v)
		die("getrandom failed");
	return v;
}

void *object_new(size_t size, uint32_t type, void (*fini)(void *))
{
	struct object *o = need(calloc(1, size));
	o->magic = ALIVE;
	o->type = type;
	o->fini = fini;
	atomic_init(&o->ext, 1);
	atomic_init(&o->refs, 1);
	live_add(LIVE_objects, 1);
	return o;
}

void object_keep(void *p)
{
	struct object *o = p;
	atomic_fetch_sub(&o->ext, 1);
}

void object_ref(void *p)
{
	struct object *o = p;
	atomic_fetch_add(&o->refs, 1);
}

bool object_try_ref(void *p)
{
	struct object *o = p;
	int n = atomic_load(&o->refs);
	while (n > 0)
		if (atomic_compare_exchange_weak(&o->refs, &n, n + 1))
			return true;
	return false;
}

static void bury(struct object *o)
{
	struct object *gone = NULL;
	pthread_mutex_lock(&graves_lock);
	*newest = o;
	newest = &o->next_dead;
	if (++graves > GRAVES) {
		gone = oldest;
		oldest = gone->next_dead;
		graves--;
	}
	pthread_mutex_unlock(&graves_lock);
	free(gone);
}

void object_unref(void *p)
{
	struct object *o = p;
	if (atomic_fetch_sub(&o->refs, 1) != 1)
		return;
	if (o->fini != NULL)
		o->fini(o);
	__atomic_store_n(&o->magic, DEAD, __ATOMIC_RELAXED);
	live_add(LIVE_objects, -1);
	bury(o);
}

static uint32_t magic_of(const struct object *o) { return __atomic_load_n(&o->magic, __ATOMIC_RELAXED); }

bool object_lives(const void *p, uint32_t type)
{
	const struct object *o = p;
	return o != NULL && magic_of(o) == ALIVE && o->type == type;
}

void object_check(const void *p, const char *function)
{
	const struct object *o = p;
	if (o == NULL)
		die("%s: the object is NULL", function);
	if (magic_of(o) == DEAD)
		die("%s: use of an object after its last release", function);
	if (magic_of(o) != ALIVE)
		die("%s: %p is not an object", function, p);
}

void object_retain(void *p, const char *function, bool (*fits)(uint32_t))
{
	object_check(p, function);
	struct object *o = p;
	if (!fits(o->type))
		die("%s: wrong kind of object", function);
	atomic_fetch_add(&o->refs, 1);
	atomic_fetch_add(&o->ext, 1);
}

void object_release(void *p, const char *function, bool (*fits)(uint32_t))
{
	object_check(p, function);
	struct object *o = p;
	if (!fits(o->type))
		die("%s: wrong kind of object", function);
	if (atomic_fetch_sub(&o->ext, 1) <= 0)
		die("%s: over-release: the caller holds no reference", function);
	object_unref(o);
}
