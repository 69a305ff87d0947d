// SPDX-License-Identifier: Apache-2.0

// A ring of frames in one block of memory, for one writer and one reader at a time. A frame lies in one piece behind its
// length; where it does not fit before the end, a mark sends the reader to the beginning.
#ifndef VMNETSIM_RING_H
#define VMNETSIM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RING_HEAD = 8, RING_BYTES = 1 << 20, RING_BYTES_TSO = 8 << 20 };
#define RING_WRAP UINT32_MAX

struct ring {
	uint8_t *memory; // NULL: takes nothing
	size_t size;     // a power of two
	// The writer's.
	_Alignas(64) _Atomic size_t tail;
	size_t seen_head;
	_Atomic uint64_t put;
	// The reader's.
	_Alignas(64) _Atomic size_t head;
	_Atomic uint64_t got;
};

static inline size_t ring_need(uint32_t len) { return RING_HEAD + (((size_t)len + 7) & ~(size_t)7); }

static inline bool ring_space(struct ring *r, size_t tail, size_t need)
{
	if (tail + need - r->seen_head <= r->size)
		return true;
	r->seen_head = atomic_load_explicit(&r->head, memory_order_acquire);
	return tail + need - r->seen_head <= r->size;
}

// A writer that finds the ring empty every 64 KiB begins at the front again: where the reader keeps up, the frames stay in
// the processor's cache. It may move the head as well, since the reader does not while there is nothing to read.
static inline bool ring_rewind(struct ring *r, size_t *tail, size_t at, size_t need)
{
	if (at >> 16 == (at + need) >> 16 || at == 0 || atomic_load_explicit(&r->head, memory_order_acquire) != *tail)
		return false;
	*tail += r->size - at;
	r->seen_head = *tail;
	atomic_store_explicit(&r->head, *tail, memory_order_relaxed); // the tail's store publishes it
	return true;
}

// Copies a frame in. False: it is full.
static inline bool ring_put(struct ring *r, const uint8_t *frame, uint32_t len)
{
	if (r->memory == NULL)
		return false;
	size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	size_t need = ring_need(len), at = tail & (r->size - 1), rest = r->size - at;
	if (ring_rewind(r, &tail, at, need)) {
		at = 0;
	} else if (need > rest) {
		if (!ring_space(r, tail, rest + need))
			return false;
		uint32_t wrap = RING_WRAP;
		memcpy(r->memory + at, &wrap, sizeof wrap);
		tail += rest;
		at = 0;
	} else if (!ring_space(r, tail, need)) {
		return false;
	}
	memcpy(r->memory + at, &len, sizeof len);
	memcpy(r->memory + at + RING_HEAD, frame, len);
	atomic_store_explicit(&r->tail, tail + need, memory_order_release);
	uint64_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
	atomic_store_explicit(&r->put, put + 1, memory_order_relaxed);
	return true;
}

// The next frame, or NULL. It stays valid until ring_next.
static inline const uint8_t *ring_peek(struct ring *r, uint32_t *len)
{
	size_t tail = atomic_load_explicit(&r->tail, memory_order_acquire); // first, see ring_rewind
	size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	if ((ptrdiff_t)(tail - head) <= 0) // less: the writer is about to put the first frame
		return NULL;
	size_t at = head & (r->size - 1);
	memcpy(len, r->memory + at, sizeof *len);
	if (*len == RING_WRAP) {
		head += r->size - at;
		atomic_store_explicit(&r->head, head, memory_order_release);
		at = 0;
		memcpy(len, r->memory, sizeof *len);
	}
	return r->memory + at + RING_HEAD;
}

static inline void ring_next(struct ring *r, uint32_t len)
{
	size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	atomic_store_explicit(&r->head, head + ring_need(len), memory_order_release);
	uint64_t got = atomic_load_explicit(&r->got, memory_order_relaxed);
	atomic_store_explicit(&r->got, got + 1, memory_order_relaxed);
}

// How many frames are in it, seen from the writer's side.
static inline uint64_t ring_count(struct ring *r)
{
	return atomic_load_explicit(&r->put, memory_order_relaxed) - atomic_load_explicit(&r->got, memory_order_relaxed);
}

void ring_open(struct ring *, size_t size);
void ring_close(struct ring *);

#endif
