// SPDX-License-Identifier: Apache-2.0

// The loader: maps a Mach-O program as Go's linker makes it, at the address that it wants, binds what it imports, and starts it.
#include "darwin.h"
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

char machrun_path[4096], machrun_image[4096];
bool machrun_trace;

void die(const char *format, ...) {
	va_list ap;
	__builtin_va_start(ap, format);
	fputs("machrun: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	exit(126);
}

// ---- the file ----

struct header { uint32_t magic, cputype, cpusubtype, filetype, ncmds, sizeofcmds, flags, reserved; };
struct command { uint32_t cmd, size; };
struct segment { struct command c; char name[16]; uint64_t addr, vmsize, off, filesize; uint32_t maxprot, prot, nsects, flags; };
struct dyld_info { struct command c; uint32_t rebase_off, rebase_size, bind_off, bind_size, weak_off, weak_size, lazy_off, lazy_size, export_off, export_size; };
struct unixthread { struct command c; uint32_t flavor, count; uint64_t reg[21]; };

enum { SEGMENT = 0x19, UNIXTHREAD = 0x5, DYLD_INFO_ONLY = 0x80000022, CHAINED_FIXUPS = 0x80000034, MAIN = 0x80000028 };

static uint64_t segments[16];
static int nsegments;

static void map(int fd, const struct segment *s) {
	if (nsegments == 16)
		die("%s has more than 16 segments", machrun_image);
	segments[nsegments++] = s->addr;
	if (s->vmsize == 0 || s->prot == 0) // page zero, and DWARF
		return;
	size_t whole = (s->vmsize + 4095) & ~4095ul, file = (s->filesize + 4095) & ~4095ul;
	int prot = (int)s->prot; // the bits are the same
	void *at = (void *)s->addr;
	if (mmap(at, whole, prot | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
		die("map %s: %s", s->name, strerror(errno));
	if (s->filesize == 0)
		return;
	if (mmap(at, file, prot, MAP_PRIVATE | MAP_FIXED, fd, (off_t)s->off) != at)
		die("map %s: %s", s->name, strerror(errno));
	if (prot & PROT_WRITE)
		memset((char *)at + s->filesize, 0, (s->filesize < s->vmsize ? file : s->filesize) - s->filesize);
}

// ---- imports ----

__attribute__((noreturn)) static void missing(const char *name) {
	fprintf(stderr, "machrun: %s called %s, of which there is no shim\n", machrun_image, name);
	abort();
}

// stub makes a function that says that it is missing.
static void *stub(const char *name) {
	static unsigned char *page, *end;
	if (page == end) {
		page = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		end = page + 65536;
	}
	unsigned char *at = page;
	const char *kept = strdup(name);
	void *f = (void *)missing;
	memcpy(at, "\x48\xbf", 2), memcpy(at + 2, &kept, 8);       // mov rdi, name
	memcpy(at + 10, "\x48\xb8", 2), memcpy(at + 12, &f, 8);    // mov rax, missing
	memcpy(at + 20, "\x48\x83\xe4\xf0\xff\xd0", 6);            // and rsp, -16; call rax
	page += 32;
	return at;
}

static uint64_t uleb(const uint8_t **p) {
	uint64_t v = 0;
	for (int shift = 0;; shift += 7) {
		uint8_t b = *(*p)++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
}

static void bind_one(uint64_t at, const char *symbol, int64_t addend) {
	void *f = shim(symbol + 1); // behind the underscore that C puts in front
	if (f == NULL)
		f = stub(symbol + 1);
	*(uint64_t *)at = (uint64_t)f + (uint64_t)addend;
}

// bind interprets dyld's bind opcodes.
static void bind_all(const uint8_t *p, const uint8_t *end) {
	const char *symbol = "";
	uint64_t at = 0;
	int64_t addend = 0;
	while (p < end) {
		uint8_t op = *p & 0xf0, imm = *p & 0x0f;
		p++;
		switch (op) {
		case 0x00: return;                                       // DONE
		case 0x10: case 0x30: case 0x50: break;                  // which library, what type
		case 0x20: uleb(&p); break;
		case 0x40: symbol = (const char *)p; p += strlen(symbol) + 1; break;
		case 0x60: { // ADDEND_SLEB; Go's linker writes none
			die("addend in bind table");
		}
		case 0x70: at = segments[imm] + uleb(&p); break;         // SEGMENT_AND_OFFSET
		case 0x80: at += uleb(&p); break;                        // ADD_ADDR
		case 0x90: bind_one(at, symbol, addend), at += 8; break; // DO_BIND
		case 0xa0: bind_one(at, symbol, addend), at += 8 + uleb(&p); break;
		case 0xb0: bind_one(at, symbol, addend), at += 8 + 8ul * imm; break;
		case 0xc0: {
			uint64_t count = uleb(&p), skip = uleb(&p);
			while (count-- > 0)
				bind_one(at, symbol, addend), at += 8 + skip;
			break;
		}
		default: die("bind opcode %#x", op);
		}
	}
}

// load returns where the program begins.
uint64_t load(const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	struct stat st;
	fstat(fd, &st);
	const uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	const struct header *h = (const void *)file;
	if (file == MAP_FAILED || (size_t)st.st_size < sizeof *h || h->magic != 0xfeedfacf || h->cputype != 0x01000007 || h->filetype != 2)
		die("%s is no program for darwin/amd64", path);
	uint64_t entry = 0;
	const struct dyld_info *info = NULL;
	const uint8_t *at = (const uint8_t *)(h + 1);
	for (uint32_t i = 0; i < h->ncmds; i++) {
		const struct command *c = (const void *)at;
		switch (c->cmd) {
		case SEGMENT: map(fd, (const void *)c); break;
		case UNIXTHREAD: entry = ((const struct unixthread *)c)->reg[16]; break;
		case DYLD_INFO_ONLY: info = (const void *)c; break;
		case CHAINED_FIXUPS: case MAIN: die("%s was not linked by Go's own linker", path);
		}
		at += c->size;
	}
	if (info != NULL)
		bind_all(file + info->bind_off, file + info->bind_off + info->bind_size);
	if (entry == 0)
		die("%s has no entry", path);
	munmap((void *)file, (size_t)st.st_size);
	close(fd);
	return entry;
}
