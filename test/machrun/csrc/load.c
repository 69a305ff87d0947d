// SPDX-License-Identifier: Apache-2.0

// Maps a program at the address that it wants, and binds what it imports.
#include "darwin.h"
#include "macho.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

char machrun_path[4096], machrun_image[4096];
bool machrun_trace;

void die(int status, const char *format, ...)
{
	char text[8192];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	dprintf(2, "machrun: %s\n", text);
	_exit(status);
}

static size_t pages(uint64_t n) { return (n + 4095) & ~4095ul; }

static void map(const char *path, int fd, const struct span *s)
{
	if (s->size == 0 || s->prot == 0) // page zero, and DWARF
		return;
	char *at = (char *)s->addr;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
	void *got = mmap(at, pages(s->size), s->prot, flags, -1, 0);
	if (got == MAP_FAILED || got != at)
		die(CANNOT_RUN, "%s: map %s at %#lx: %s", path, s->name, s->addr, got == MAP_FAILED ? strerror(errno) : "it is taken");
	if (s->filesize == 0)
		return;
	if (mmap(at, pages(s->filesize), s->prot, MAP_PRIVATE | MAP_FIXED, fd, (off_t)s->off) != at)
		die(CANNOT_RUN, "%s: map %s: %s", path, s->name, strerror(errno));
	if (s->prot & PROT_WRITE) // the rest of the file's last page
		memset(at + s->filesize, 0, pages(s->filesize) - s->filesize);
}

__attribute__((noreturn)) static void missing(const char *name)
{
	die(MISSING, "%s called %s, which the loader lacks", machrun_image, name);
}

// stub makes a function that says that it is missing.
static void *stub(const char *name)
{
	enum { SIZE = 32, ALL = 2048 * SIZE };
	static unsigned char *page, *end;
	if (page == end) {
		page = mmap(NULL, ALL, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			die(CANNOT_RUN, "memory for what is missing: %s", strerror(errno));
		end = page + ALL;
	}
	const char *kept = strdup(name);
	void *f = (void *)missing;
	unsigned char *at = page;
	memcpy(at, "\x48\xbf", 2); // mov rdi, name
	memcpy(at + 2, &kept, 8);
	memcpy(at + 10, "\x48\xb8", 2); // mov rax, missing
	memcpy(at + 12, &f, 8);
	memcpy(at + 20, "\x48\x83\xe4\xf0\xff\xd0", 6); // and rsp, -16; call rax
	page += SIZE;
	return at;
}

static void bind_shim(void *context, uint64_t at, const char *symbol)
{
	(void)context;
	void *f = shim(symbol);
	if (f == NULL)
		f = stub(symbol);
	memcpy((void *)at, &f, sizeof f);
}

static void check(void *context, uint64_t at, const char *symbol) { (void)context, (void)at, (void)symbol; }

// read_file maps all of a file for reading. NULL with errno set: it is none.
static uint8_t *read_file(int fd, size_t *n)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return NULL;
	errno = EACCES; // as execve says
	if (!S_ISREG(st.st_mode))
		return NULL;
	*n = (size_t)st.st_size;
	void *file = mmap(NULL, *n + 1, PROT_READ, MAP_PRIVATE, fd, 0); // which may have 0 bytes
	return file == MAP_FAILED ? NULL : file;
}

uint64_t load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	uint8_t *file = fd < 0 ? NULL : read_file(fd, &n);
	if (file == NULL || access(path, X_OK) != 0)
		die(errno == ENOENT ? MISSING : CANNOT_RUN, "%s: %s", path, strerror(errno));
	struct image m;
	if (!macho_parse(file, n, &m) || !bind_each(file, &m, check, NULL))
		die(CANNOT_RUN, "%s cannot run: %s", path, m.why);
	for (int i = 0; i < m.nsegments; i++)
		map(path, fd, &m.segments[i]);
	bind_each(file, &m, bind_shim, NULL);
	for (int i = 0; i < m.nsegments; i++)
		if (m.segments[i].constant)
			mprotect((void *)m.segments[i].addr, pages(m.segments[i].size), PROT_READ);
	munmap(file, n + 1);
	close(fd);
	return m.entry;
}

int load_error(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	uint8_t *file = fd < 0 ? NULL : read_file(fd, &n);
	if (fd >= 0)
		close(fd);
	if (file == NULL)
		return -1;
	struct image m = {0};
	int e = -1;
	if (macho_is_one(file, n))
		e = macho_parse(file, n, &m) && bind_each(file, &m, check, NULL) ? 0 : m.error;
	munmap(file, n + 1);
	return e;
}
