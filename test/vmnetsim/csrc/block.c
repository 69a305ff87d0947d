// SPDX-License-Identifier: Apache-2.0

// The Blocks runtime, and CoreFoundation's reference counts.
#include "internal.h"

#include <stdlib.h>

void *_NSConcreteGlobalBlock[32], *_NSConcreteStackBlock[32], *_NSConcreteMallocBlock[32];

// macOS would call whatever such a thing points to.
static void check(const struct block *b)
{
	if (b == NULL)
		die("the block is NULL");
	if (b->isa != _NSConcreteGlobalBlock && b->isa != _NSConcreteStackBlock && b->isa != _NSConcreteMallocBlock)
		die("%p is not a block: its isa is %p", (const void *)b, b->isa);
	if (b->isa == _NSConcreteGlobalBlock && !(b->flags & BLOCK_IS_GLOBAL))
		die("a global block without BLOCK_IS_GLOBAL in its flags %#x", (unsigned)b->flags);
	if (b->invoke == NULL)
		die("a block without invoke");
	if (b->descriptor == NULL || b->descriptor->size < sizeof *b)
		die("a block without a descriptor that tells its size");
}

static struct block *copy(const struct block *b)
{
	check(b);
	if (b->flags & BLOCK_IS_GLOBAL)
		return (struct block *)(uintptr_t)b;
	if (b->flags & BLOCK_NEEDS_FREE) {
		struct block *same = (struct block *)(uintptr_t)b;
		__atomic_fetch_add(&same->flags, 2, __ATOMIC_SEQ_CST);
		return same;
	}
	struct block *heap = need(malloc(b->descriptor->size));
	memcpy(heap, b, b->descriptor->size);
	heap->isa = _NSConcreteMallocBlock;
	heap->flags = (heap->flags & ~BLOCK_REFCOUNT_MASK) | BLOCK_NEEDS_FREE | 2;
	if (heap->flags & BLOCK_HAS_COPY_DISPOSE)
		heap->descriptor->copy(heap, b);
	return heap;
}

static void release(struct block *b)
{
	check(b);
	if (b->flags & BLOCK_IS_GLOBAL || !(b->flags & BLOCK_NEEDS_FREE))
		return;
	int32_t before = __atomic_fetch_sub(&b->flags, 2, __ATOMIC_SEQ_CST);
	if ((before & BLOCK_REFCOUNT_MASK) == 0)
		die("_Block_release: over-release");
	if ((before & BLOCK_REFCOUNT_MASK) != 2)
		return;
	if (b->flags & BLOCK_HAS_COPY_DISPOSE)
		b->descriptor->dispose(b);
	free(b);
}

struct block *block_hold(struct block *b)
{
	struct block *held = copy(b);
	live_add(LIVE_blocks, 1);
	return held;
}

void block_drop(struct block *b)
{
	live_add(LIVE_blocks, -1);
	release(b);
}

void *_Block_copy(const void *b)
{
	COUNT(_Block_copy);
	return b == NULL ? NULL : copy(b);
}

void _Block_release(const void *b)
{
	COUNT(_Block_release);
	if (b != NULL)
		release((struct block *)(uintptr_t)b);
}

static bool is_core_foundation(uint32_t type) { return type == TYPE_CONFIG || type == TYPE_NETWORK; }

void CFRelease(void *p)
{
	COUNT(CFRelease);
	object_release(p, "CFRelease", is_core_foundation);
}
