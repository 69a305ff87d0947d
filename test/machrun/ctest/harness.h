// SPDX-License-Identifier: Apache-2.0

// What the C tests share. Each test runs in a process of its own, so that descriptors, threads and switches of one do not
// reach the next.
#ifndef MACHRUN_HARNESS_H
#define MACHRUN_HARNESS_H

#include "control.h"
#include "darwin.h"
#include "shims.h"

#include <sys/stat.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};
void register_test(struct test *);

// CASE defines a test, which is registered before main.
#define CASE(name) \
	static void run_##name(void); \
	__attribute__((constructor)) static void register_##name(void) \
	{ \
		static struct test t = {#name, run_##name, NULL}; \
		register_test(&t); \
	} \
	static void run_##name(void)

_Noreturn void failed(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			failed(__FILE__, __LINE__, "%s", #condition); \
	} while (0)

#define EQUAL(want, got) \
	do { \
		long long want_ = (long long)(want), got_ = (long long)(got); \
		if (want_ != got_) \
			failed(__FILE__, __LINE__, "%s is %lld, want %lld", #got, got_, want_); \
	} while (0)

// FAILS checks that a call returns -1 with an errno of macOS.
#define FAILS(error, call) \
	do { \
		*darwin_error() = 0; \
		long long got_ = (long long)(call); \
		if (got_ != -1 || *darwin_error() != (error)) \
			failed(__FILE__, __LINE__, "%s is %lld with errno %d, want -1 with %d", #call, got_, *darwin_error(), (int)(error)); \
	} while (0)

// UNTIL waits for a condition that another thread or process brings about.
#define UNTIL(condition) \
	for (int ms_ = 0; !(condition); ms_++, usleep(1000)) \
	CHECK(ms_ < 30000)

const char *directory(void); // one of the test's own, removed at its end

#endif
