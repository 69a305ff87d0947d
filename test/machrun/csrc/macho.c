// SPDX-License-Identifier: Apache-2.0

// Reads and checks a Mach-O file. The layouts and numbers are those of Apple's mach-o/loader.h and mach-o/fat.h; what is
// refused, and with which errno, is as in xnu's bsd/kern/mach_loader.c and kern_exec.c, or is what Go's linker never makes.
#include "macho.h"
#include "darwin.h"

#include <stdarg.h>

enum { MAGIC = 0xfeedfacf, MAGIC_32 = 0xfeedface, SWAPPED = 0xcffaedfe, SWAPPED_32 = 0xcefaedfe, FAT = 0xbebafeca, FAT_64 = 0xbfbafeca };
enum { CPU_X86_64 = 0x01000007, CPU_ARM64 = 0x0100000c, EXECUTE = 2 };
enum { SEGMENT = 0x19, UNIXTHREAD = 0x5, THREAD_STATE64 = 4, THREAD_COUNT = 42, SG_READ_ONLY = 0x10 };
#define REQ_DYLD 0x80000000u
#define DYLD_INFO_ONLY (0x22 | REQ_DYLD)
enum { D_EBADEXEC = 85, D_EBADARCH = 86, D_EBADMACHO = 88 };

struct header {
	uint32_t magic, cputype, cpusubtype, filetype, ncmds, sizeofcmds, flags, reserved;
};
struct command {
	uint32_t cmd, size;
};
struct segment {
	struct command c;
	char name[16];
	uint64_t addr, size, off, filesize;
	uint32_t maxprot, prot, nsects, flags;
};
struct dyld_info {
	struct command c;
	uint32_t rebase_off, rebase_size, bind_off, bind_size, weak_off, weak_size, lazy_off, lazy_size, export_off, export_size;
};
struct unixthread {
	struct command c;
	uint32_t flavor, count;
	uint64_t reg[21]; // rip is 16
};
enum { SECTION_SIZE = 80, PAGE = 4096, RIP = 16 };
#define ADDRESSES (UINT64_C(1) << 47) // what a program may map
#define LONGEST (UINT64_C(1) << 32)   // Go's linker makes no longer ones

bool macho_refuse(struct image *m, int error, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(m->why, sizeof m->why, format, ap);
	va_end(ap);
	m->error = error;
	return false;
}

#define BAD(...) macho_refuse(m, D_EBADMACHO, __VA_ARGS__)

bool macho_is_one(const uint8_t *file, size_t n)
{
	uint32_t magic = 0;
	if (n >= sizeof magic)
		memcpy(&magic, file, sizeof magic);
	switch (magic) {
	case MAGIC:
	case MAGIC_32:
	case SWAPPED:
	case SWAPPED_32:
	case FAT:
	case FAT_64:
		return true;
	}
	return false;
}

// is_other tells what a file is that is no 64-bit Mach-O, or "".
static const char *is_other(const uint8_t *file, size_t n)
{
	uint32_t magic = 0;
	memcpy(&magic, file, n < sizeof magic ? n : sizeof magic);
	if (magic == MAGIC)
		return "";
	if (magic == FAT || magic == FAT_64)
		return "it is a universal file: take the part for x86_64 out of it, with lipo -thin";
	if (magic == MAGIC_32 || magic == SWAPPED_32 || magic == SWAPPED)
		return "it is a Mach-O file for another processor";
	if (n >= 4 && memcmp(file, "\177ELF", 4) == 0)
		return "it is a program for Linux";
	if (n >= 2 && memcmp(file, "#!", 2) == 0)
		return "it is a script";
	return "it is no Mach-O file";
}

static bool check_header(const uint8_t *file, size_t n, struct image *m)
{
	const char *other = is_other(file, n);
	if (other[0] != 0)
		return macho_refuse(m, macho_is_one(file, n) ? D_EBADARCH : D_EBADEXEC, "%s", other);
	const struct header *h = (const void *)file;
	if (n < sizeof *h)
		return macho_refuse(m, D_EBADEXEC, "it ends in its header, after %zu bytes", n);
	if (h->cputype != CPU_X86_64)
		return macho_refuse(m, D_EBADARCH, "it is for %s, not for x86_64", h->cputype == CPU_ARM64 ? "arm64" : "another processor");
	if (h->filetype != EXECUTE)
		return BAD("its type is %u, and %d is a program's", h->filetype, EXECUTE);
	if (h->sizeofcmds > n - sizeof *h)
		return BAD("its load commands have %u bytes, but the file ends after %zu", h->sizeofcmds, n);
	return true;
}

static bool within(uint64_t off, uint64_t size, uint64_t n) { return off <= n && size <= n - off; }

static bool check_span(const struct segment *s, size_t n, struct image *m)
{
	if (s->c.size < sizeof *s || (s->c.size - sizeof *s) / SECTION_SIZE < s->nsects)
		return BAD("segment %.16s is longer than its load command", s->name);
	if (!within(s->off, s->filesize, n))
		return BAD("segment %.16s is at %#lx to %#lx, but the file ends after %zu bytes", s->name, s->off, s->off + s->filesize, n);
	if (s->size > LONGEST || !within(s->addr, s->size, ADDRESSES))
		return BAD("segment %.16s is at address %#lx with %#lx bytes", s->name, s->addr, s->size);
	if (s->prot == 0 || s->size == 0) // page zero, and DWARF: not mapped
		return true;
	if (s->filesize > s->size)
		return BAD("segment %.16s has %#lx bytes in the file, but %#lx in memory", s->name, s->filesize, s->size);
	if (s->addr % PAGE != 0 || s->off % PAGE != 0)
		return BAD("segment %.16s begins in a page: address %#lx, offset %#lx", s->name, s->addr, s->off);
	if (s->prot > 7)
		return BAD("segment %.16s has protection %#x", s->name, s->prot);
	return true;
}

static bool add_segment(const struct segment *s, size_t n, struct image *m)
{
	if (!check_span(s, n, m))
		return false;
	if (m->nsegments == MAX_SEGMENTS)
		return BAD("it has more than %d segments", MAX_SEGMENTS);
	for (int i = 0; i < m->nsegments; i++) {
		struct span *o = &m->segments[i];
		if (s->size > 0 && o->size > 0 && s->addr < o->addr + o->size && o->addr < s->addr + s->size)
			return BAD("segments %s and %.16s overlap", o->name, s->name);
	}
	struct span *o = &m->segments[m->nsegments++];
	*o = (struct span){.addr = s->addr, .size = s->size, .off = s->off, .filesize = s->filesize, .prot = (int)s->prot};
	o->constant = s->flags & SG_READ_ONLY;
	memcpy(o->name, s->name, sizeof s->name);
	return true;
}

static bool add_thread(const struct unixthread *t, struct image *m)
{
	if (m->entry != 0)
		return BAD("it has two entries");
	if (t->c.size < sizeof *t || t->flavor != THREAD_STATE64 || t->count != THREAD_COUNT)
		return BAD("its LC_UNIXTHREAD is none of x86_64");
	m->entry = t->reg[RIP];
	return true;
}

static bool add_info(const struct dyld_info *d, size_t n, struct image *m)
{
	if (m->bind_size != 0)
		return BAD("it has two tables of imports");
	if (d->c.size < sizeof *d || !within(d->bind_off, d->bind_size, n))
		return BAD("its table of imports is at %#x with %#x bytes, but the file ends after %zu", d->bind_off, d->bind_size, n);
	if (d->weak_size != 0 || d->lazy_size != 0)
		return BAD("it has weak or lazy imports: Go's own linker did not make it");
	m->bind_off = d->bind_off;
	m->bind_size = d->bind_size;
	return true;
}

static bool add_command(const struct command *c, size_t n, struct image *m)
{
	switch (c->cmd) {
	case SEGMENT:
		return add_segment((const void *)c, n, m);
	case UNIXTHREAD:
		return add_thread((const void *)c, m);
	case DYLD_INFO_ONLY:
		return add_info((const void *)c, n, m);
	}
	if (c->cmd & REQ_DYLD) // LC_MAIN, chained fixups
		return BAD("load command %#x is not known here: Go's own linker did not make it", c->cmd);
	return true;
}

static bool check_entry(struct image *m)
{
	for (int i = 0; i < m->nsegments; i++) {
		const struct span *s = &m->segments[i];
		if (s->prot & 4 && m->entry - s->addr < s->size)
			return true;
	}
	return m->entry == 0 ? BAD("it has no LC_UNIXTHREAD") : BAD("its entry %#lx is in no segment with code", m->entry);
}

bool macho_parse(const uint8_t *file, size_t n, struct image *m)
{
	memset(m, 0, sizeof *m);
	if (!check_header(file, n, m))
		return false;
	const struct header *h = (const void *)file;
	uint64_t at = sizeof *h, end = at + h->sizeofcmds;
	for (uint32_t i = 0; i < h->ncmds; i++) {
		const struct command *c = (const void *)(file + at);
		if (end - at < sizeof *c || c->size < sizeof *c || c->size % 8 != 0 || c->size > end - at)
			return BAD("load command %u of %u does not fit into their %u bytes", i, h->ncmds, h->sizeofcmds);
		if (!add_command(c, n, m))
			return false;
		at += c->size;
	}
	return check_entry(m);
}
