// SPDX-License-Identifier: Apache-2.0

// What is read from a Mach-O file. Everything in here was checked against the file's size.
#ifndef MACHRUN_MACHO_H
#define MACHRUN_MACHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_SEGMENTS = 16, MAX_BINDS = 65536 };

struct span {
	char name[17];
	uint64_t addr, size, off, filesize; // size is that in memory
	int prot;                           // as for mmap: the bits are the same
	bool constant;                      // read-only once it is bound
};

struct image {
	struct span segments[MAX_SEGMENTS];
	int nsegments;
	uint64_t entry;
	uint64_t bind_off, bind_size;
	int error;     // of macOS's execve, where a function below returned false
	char why[160]; // the same for people
};

// macho_refuse keeps why a file cannot run. It returns false.
bool macho_refuse(struct image *, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

// macho_is_one tells by its first bytes whether a file is for macOS, if perhaps for another processor.
bool macho_is_one(const uint8_t *file, size_t n);

// macho_parse reads a file of n bytes, aligned to 8. False: it cannot run.
bool macho_parse(const uint8_t *file, size_t n, struct image *);

// A binding is called with an address in a segment that can be written, and with what shall be there.
typedef void binding(void *context, uint64_t at, const char *symbol);

// bind_each interprets the bind opcodes of a file. False: they are bad.
bool bind_each(const uint8_t *file, struct image *, binding *, void *context);

#endif
