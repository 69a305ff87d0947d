// SPDX-License-Identifier: Apache-2.0

// Random damage to a small file. The sanitizers see every access behind its end, and bad addresses show in bound.
#include "harness.h"
#include "macho.h"

enum { FILE_SIZE = 8192 + 64, HEADER = 32, SEGMENT_SIZE = 72, THREAD_SIZE = 184, INFO_SIZE = 48 };

static void put(uint8_t *at, uint64_t v, size_t size) { memcpy(at, &v, size); }

static uint8_t *add_segment(uint8_t *at, const char *name, uint64_t addr, uint64_t off, uint64_t size, int prot)
{
	put(at, 0x19, 4);
	put(at + 4, SEGMENT_SIZE, 4);
	strncpy((char *)at + 8, name, 16);
	put(at + 24, addr, 8);
	put(at + 32, 4096, 8);
	put(at + 40, off, 8);
	put(at + 48, size, 8);
	put(at + 60, (uint64_t)prot, 4);
	return at + SEGMENT_SIZE;
}

// make fills a good file with code, data and imports.
static void make(uint8_t *file)
{
	static const uint8_t binds[] = {0x11, 0x40, '_', 'r', 'e', 'a', 'd', 0, 0x51, 0x71, 0x10, 0x90, 0xa0, 0x08, 0xb1, 0xc0, 0x03, 0x08, 0x80, 0x10, 0x90, 0};
	memset(file, 0, FILE_SIZE);
	put(file, 0xfeedfacf, 4);
	put(file + 4, 0x01000007, 4);
	put(file + 12, 2, 4);
	put(file + 16, 4, 4);
	put(file + 20, 2 * SEGMENT_SIZE + THREAD_SIZE + INFO_SIZE, 4);
	uint8_t *at = add_segment(file + HEADER, "__TEXT", 0x1000000, 0, 4096, 5);
	at = add_segment(at, "__DATA", 0x1001000, 4096, 4096, 3);
	put(at, 5, 4);
	put(at + 4, THREAD_SIZE, 4);
	put(at + 8, 4, 4);
	put(at + 12, 42, 4);
	put(at + 16 + 16 * 8, 0x1000100, 8);
	at += THREAD_SIZE;
	put(at, 0x80000022, 4);
	put(at + 4, INFO_SIZE, 4);
	put(at + 16, 8192, 4);
	put(at + 20, 64, 4);
	memcpy(file + 8192, binds, sizeof binds);
}

static int bound;

static void count(void *context, uint64_t at, const char *symbol)
{
	const struct image *m = context;
	bool inside = false;
	for (int i = 0; i < m->nsegments; i++) {
		const struct span *s = &m->segments[i];
		inside |= s->prot & 2 && at >= s->addr && at - s->addr + 8 <= s->size;
	}
	CHECK(inside);
	CHECK(strlen(symbol) < 64);
	bound++;
}

static bool try(const uint8_t *file, size_t n, struct image *m)
{
	uint8_t *exact = malloc(n);
	CHECK(exact != NULL || n == 0);
	memcpy(exact, file, n);
	bool ok = macho_parse(exact, n, m) && bind_each(exact, m, count, m);
	CHECK(ok || (m->why[0] != 0 && m->error > 0));
	free(exact);
	return ok;
}

CASE(a_good_file)
{
	uint8_t file[FILE_SIZE];
	struct image m;
	make(file);
	bound = 0;
	if (!try(file, sizeof file, &m))
		failed(__FILE__, __LINE__, "%s", m.why);
	EQUAL(7, bound);
	EQUAL(2, m.nsegments);
	EQUAL(0x1000100, m.entry);
}

CASE(any_length)
{
	uint8_t file[FILE_SIZE];
	struct image m;
	make(file);
	for (size_t n = 0; n < sizeof file; n++)
		CHECK(!try(file, n, &m));
}

// damaged changes up to four places: bytes, or whole numbers that like to overflow.
static void damaged(uint8_t *file, unsigned *seed)
{
	static const uint64_t liked[] = {0, 1, 7, 8, 0x7f, 0x80, 0xff, 0xfff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
	for (int n = rand_r(seed) % 4; n >= 0; n--) {
		bool table = rand_r(seed) % 3 == 0;
		size_t at = table ? 8192 + (size_t)rand_r(seed) % 56 : (size_t)rand_r(seed) % 416;
		if (rand_r(seed) % 2)
			file[at] = (uint8_t)rand_r(seed);
		else
			put(file + at - at % 4, liked[(size_t)rand_r(seed) % (sizeof liked / sizeof *liked)], rand_r(seed) % 2 ? 4 : 8);
	}
}

CASE(random_damage)
{
	static uint8_t file[FILE_SIZE];
	struct image m;
	unsigned seed = 1;
	int good = 0, bad = 0;
	for (int i = 0; i < 100000; i++) {
		make(file);
		damaged(file, &seed);
		if (try(file, sizeof file, &m))
			good++;
		else
			bad++;
	}
	CHECK(good > 1000);
	CHECK(bad > 10000);
}
