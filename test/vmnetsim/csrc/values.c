// SPDX-License-Identifier: Apache-2.0

// Reading XPC values by their types.
#include "internal.h"

xpc_type_t xpc_get_type(xpc_object_t x)
{
	static const xpc_type_t types[] = {
		[TYPE_DICTIONARY] = &_xpc_type_dictionary, [TYPE_ARRAY] = &_xpc_type_array,   [TYPE_STRING] = &_xpc_type_string,
		[TYPE_UINT64] = &_xpc_type_uint64,         [TYPE_INT64] = &_xpc_type_int64, [TYPE_BOOL] = &_xpc_type_bool,
		[TYPE_UUID] = &_xpc_type_uuid,
	};
	COUNT(xpc_get_type);
	object_check(x, "xpc_get_type");
	if (x->o.type > TYPE_UUID)
		die("xpc_get_type: not an XPC object");
	return types[x->o.type];
}

// The object if it is of the type, else NULL, for which the getters have a neutral answer as libxpc's do.
static struct xpc *typed(struct xpc *x, uint32_t type, const char *function)
{
	object_check(x, function);
	return x->o.type == type ? x : NULL;
}

#define TYPED(f, x, type) (COUNT(f), typed(x, type, #f))

#define GETTER(result, f, type, neutral, what) \
	result f(xpc_object_t x) \
	{ \
		struct xpc *v = TYPED(f, x, type); \
		return v == NULL ? neutral : what; \
	}

GETTER(uint64_t, xpc_uint64_get_value, TYPE_UINT64, 0, v->number)
GETTER(int64_t, xpc_int64_get_value, TYPE_INT64, 0, (int64_t)v->number)
GETTER(bool, xpc_bool_get_value, TYPE_BOOL, false, v->number != 0)
GETTER(const char *, xpc_string_get_string_ptr, TYPE_STRING, NULL, v->string)
GETTER(const uint8_t *, xpc_uuid_get_bytes, TYPE_UUID, NULL, v->uuid)
GETTER(size_t, xpc_array_get_count, TYPE_ARRAY, 0, v->count)

const char *xpc_array_get_string(xpc_object_t x, size_t i)
{
	struct xpc *a = TYPED(xpc_array_get_string, x, TYPE_ARRAY);
	if (a == NULL)
		return NULL;
	if (i >= a->count)
		die("xpc_array_get_string: index %zu of %zu", i, a->count);
	struct xpc *v = a->entries[i].value;
	return v->o.type == TYPE_STRING ? v->string : NULL;
}
