// SPDX-License-Identifier: Apache-2.0

// Dictionaries, arrays and values of libxpc.
#include "internal.h"

#include <stdlib.h>

const struct xpc_type _xpc_type_dictionary = {"dictionary"}, _xpc_type_array = {"array"}, _xpc_type_string = {"string"};
const struct xpc_type _xpc_type_uint64 = {"uint64"}, _xpc_type_int64 = {"int64"}, _xpc_type_bool = {"bool"};
const struct xpc_type _xpc_type_uuid = {"uuid"};

static bool is_xpc(uint32_t type) { return type >= TYPE_DICTIONARY && type <= TYPE_UUID; }

static void fini(void *p)
{
	struct xpc *x = p;
	for (size_t i = 0; i < x->count; i++) {
		free(x->entries[i].key);
		object_unref(x->entries[i].value);
	}
	free(x->entries);
	free(x->string);
	x->entries = NULL;
	x->string = NULL;
	x->count = 0;
}

static struct xpc *value(uint32_t type)
{
	struct xpc *x = object_new(sizeof *x, type, fini);
	object_keep(x);
	return x;
}

struct xpc *xpc_new_dictionary(void) { return value(TYPE_DICTIONARY); }
struct xpc *xpc_new_array(void) { return value(TYPE_ARRAY); }

static struct xpc *new_string(const char *s)
{
	struct xpc *x = value(TYPE_STRING);
	x->string = need(strdup(s));
	return x;
}

static struct entry *grow(struct xpc *x)
{
	if (x->count == x->cap) {
		x->cap = x->cap == 0 ? 12 : 2 * x->cap;
		x->entries = need(realloc(x->entries, x->cap * sizeof *x->entries));
	}
	return &x->entries[x->count++];
}

static struct entry *find(const struct xpc *x, const char *key)
{
	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->entries[i].key, key) == 0)
			return &x->entries[i];
	return NULL;
}

// Takes over the reference to v.
static void put(struct xpc *x, const char *key, struct xpc *v)
{
	struct entry *e = find(x, key);
	if (e != NULL) {
		object_unref(e->value);
	} else {
		e = grow(x);
		e->key = need(strdup(key));
	}
	e->value = v;
}

void xpc_append_string(struct xpc *array, const char *s)
{
	*grow(array) = (struct entry){NULL, new_string(s)};
}

void xpc_put_number(struct xpc *x, const char *key, uint32_t type, uint64_t n)
{
	struct xpc *v = value(type);
	v->number = n;
	put(x, key, v);
}

void xpc_put_string(struct xpc *x, const char *key, const char *s) { put(x, key, new_string(s)); }

void xpc_put_uuid(struct xpc *x, const char *key, const uint8_t uuid[16])
{
	struct xpc *v = value(TYPE_UUID);
	memcpy(v->uuid, uuid, 16);
	put(x, key, v);
}

struct xpc *xpc_find(const struct xpc *x, const char *key, uint32_t type)
{
	struct entry *e = find(x, key);
	return e != NULL && e->value->o.type == type ? e->value : NULL;
}

// Checks the dictionary and the key of a call, and counts it.
#define DICTIONARY(f, x, key) \
	(COUNT(f), dictionary(x, key, #f))

static struct xpc *dictionary(struct xpc *x, const char *key, const char *function)
{
	object_check(x, function);
	if (x->o.type != TYPE_DICTIONARY)
		die("%s: not a dictionary", function);
	if (key == NULL)
		die("%s: the key is NULL", function);
	return x;
}

xpc_object_t xpc_dictionary_create(const char *const *keys, const xpc_object_t *values, size_t count)
{
	COUNT(xpc_dictionary_create);
	struct xpc *x = object_new(sizeof *x, TYPE_DICTIONARY, fini);
	for (size_t i = 0; i < count; i++) {
		object_check(values[i], "xpc_dictionary_create");
		object_ref(values[i]);
		put(x, keys[i], values[i]);
	}
	return x;
}

void xpc_dictionary_set_value(xpc_object_t x, const char *key, xpc_object_t v)
{
	DICTIONARY(xpc_dictionary_set_value, x, key);
	object_check(v, "xpc_dictionary_set_value");
	object_ref(v);
	put(x, key, v);
}

#define SETTER(f, number, type) \
	void f(xpc_object_t x, const char *key, number n) \
	{ \
		xpc_put_number(DICTIONARY(f, x, key), key, type, (uint64_t)n); \
	}

SETTER(xpc_dictionary_set_uint64, uint64_t, TYPE_UINT64)
SETTER(xpc_dictionary_set_int64, int64_t, TYPE_INT64)
SETTER(xpc_dictionary_set_bool, bool, TYPE_BOOL)

void xpc_dictionary_set_string(xpc_object_t x, const char *key, const char *s)
{
	DICTIONARY(xpc_dictionary_set_string, x, key);
	if (s == NULL)
		die("xpc_dictionary_set_string: the string for %s is NULL", key);
	xpc_put_string(x, key, s);
}

void xpc_dictionary_set_uuid(xpc_object_t x, const char *key, const uint8_t uuid[16])
{
	DICTIONARY(xpc_dictionary_set_uuid, x, key);
	if (uuid == NULL)
		die("xpc_dictionary_set_uuid: the UUID for %s is NULL", key);
	xpc_put_uuid(x, key, uuid);
}

uint64_t xpc_dictionary_get_uint64(xpc_object_t x, const char *key)
{
	struct xpc *v = xpc_find(DICTIONARY(xpc_dictionary_get_uint64, x, key), key, TYPE_UINT64);
	return v == NULL ? 0 : v->number;
}

bool xpc_dictionary_apply(xpc_object_t x, struct block *applier)
{
	DICTIONARY(xpc_dictionary_apply, x, "");
	struct block *b = block_hold(applier);
	bool all = true;
	for (size_t i = 0; i < x->count && all; i++)
		all = ((apply_invoke)b->invoke)(b, x->entries[i].key, x->entries[i].value);
	block_drop(b);
	return all;
}

xpc_object_t xpc_retain(xpc_object_t x)
{
	COUNT(xpc_retain);
	object_retain(x, "xpc_retain", is_xpc);
	return x;
}

void xpc_release(xpc_object_t x)
{
	COUNT(xpc_release);
	object_release(x, "xpc_release", is_xpc);
}
