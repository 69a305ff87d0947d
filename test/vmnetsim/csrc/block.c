// SPDX-License-Identifier: Apache-2.0

// Blocks, and CoreFoundation's reference counts.
#include "internal.h"

void *_NSConcreteGlobalBlock[32];

// macOS would call whatever such a thing points to. Global blocks are never copied.
struct block *block_hold(struct block *b)
{
	if (b == NULL)
		die("the block is NULL");
	if (b->isa != _NSConcreteGlobalBlock)
		die("%p is not a global block, and others are not simulated: its isa is %p", (const void *)b, b->isa);
	if (!(b->flags & BLOCK_IS_GLOBAL))
		die("a global block without BLOCK_IS_GLOBAL in its flags %#x", (unsigned)b->flags);
	if (b->invoke == NULL)
		die("a block without invoke");
	if (b->descriptor == NULL || b->descriptor->size < sizeof *b)
		die("a block without a descriptor that tells its size");
	live_add(LIVE_blocks, 1);
	return b;
}

void block_drop(struct block *b)
{
	(void)b;
	live_add(LIVE_blocks, -1);
}

static bool is_core_foundation(uint32_t type) { return type == TYPE_CONFIG || type == TYPE_NETWORK; }

void CFRelease(void *p)
{
	COUNT(CFRelease);
	object_release(p, "CFRelease", is_core_foundation);
}
