// SPDX-License-Identifier: Apache-2.0

// dyld's bind opcodes, as in Apple's mach-o/loader.h: a small program that says which symbol goes to which address.
#include "macho.h"
#include "darwin.h"

enum {
	DONE = 0x00, ORDINAL_IMM = 0x10, ORDINAL_ULEB = 0x20, SPECIAL_IMM = 0x30, SYMBOL = 0x40, TYPE = 0x50, ADDEND = 0x60,
	SEGMENT_OFFSET = 0x70, ADD_ADDR = 0x80, BIND = 0x90, BIND_ADD = 0xa0, BIND_ADD_SCALED = 0xb0, BIND_TIMES = 0xc0,
	TYPE_POINTER = 1,
};

struct binder {
	const uint8_t *p, *end;
	struct image *m;
	binding *bind;
	void *context;
	const char *symbol;
	const struct span *segment;
	uint64_t offset; // in segment
	int count;
};

#define BAD(...) macho_refuse(b->m, 88 /* EBADMACHO */, __VA_ARGS__)

static bool uleb(struct binder *b, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 64; shift += 7) {
		if (b->p == b->end)
			return BAD("its table of imports ends in a number");
		uint8_t byte = *b->p++;
		*v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return BAD("its table of imports has a number of more than 64 bits");
}

static bool bind_one(struct binder *b, uint64_t step)
{
	if (b->symbol == NULL || b->segment == NULL)
		return BAD("its table of imports binds before it has a symbol and a segment");
	const struct span *s = b->segment;
	if (!(s->prot & 2) || b->offset > s->size || s->size - b->offset < 8)
		return BAD("its table of imports puts %.40s at %#lx in segment %s", b->symbol, b->offset, s->name);
	if (++b->count > MAX_BINDS)
		return BAD("its table of imports has more than %d entries", MAX_BINDS);
	b->bind(b->context, s->addr + b->offset, b->symbol + 1); // behind the underscore that C puts in front
	b->offset += 8 + step;
	return true;
}

static bool bind_times(struct binder *b)
{
	uint64_t times, skip;
	if (!uleb(b, &times) || !uleb(b, &skip))
		return false;
	while (times-- > 0)
		if (!bind_one(b, skip))
			return false;
	return true;
}

static bool set_symbol(struct binder *b)
{
	const uint8_t *nul = memchr(b->p, 0, (size_t)(b->end - b->p));
	if (nul == NULL || *b->p != '_')
		return BAD("its table of imports has a name that does not end, or without an underscore");
	b->symbol = (const char *)b->p;
	b->p = nul + 1;
	return true;
}

static bool set_segment(struct binder *b, int i)
{
	if (i >= b->m->nsegments)
		return BAD("its table of imports names segment %d of %d", i, b->m->nsegments);
	b->segment = &b->m->segments[i];
	return uleb(b, &b->offset);
}

static bool step(struct binder *b, uint8_t op, uint8_t imm)
{
	uint64_t v;
	switch (op) {
	case ORDINAL_IMM: // which library: they all are the shims
	case SPECIAL_IMM:
		return true;
	case ORDINAL_ULEB:
		return uleb(b, &v);
	case SYMBOL:
		return set_symbol(b);
	case TYPE:
		return imm == TYPE_POINTER || BAD("its table of imports has type %d", imm);
	case SEGMENT_OFFSET:
		return set_segment(b, imm);
	case ADD_ADDR:
		if (!uleb(b, &v))
			return false;
		b->offset += v;
		return true;
	case BIND:
		return bind_one(b, 0);
	case BIND_ADD:
		return uleb(b, &v) && bind_one(b, v);
	case BIND_ADD_SCALED:
		return bind_one(b, 8ul * imm);
	case BIND_TIMES:
		return bind_times(b);
	}
	return BAD("its table of imports has opcode %#x, which Go's own linker does not use", op); // ADDEND too
}

bool bind_each(const uint8_t *file, struct image *m, binding *f, void *context)
{
	struct binder b = {.p = file + m->bind_off, .end = file + m->bind_off + m->bind_size, .m = m, .bind = f, .context = context};
	while (b.p < b.end) {
		uint8_t c = *b.p++;
		if (c == DONE)
			return true;
		if (!step(&b, c & 0xf0, c & 0x0f))
			return false;
	}
	return true;
}
