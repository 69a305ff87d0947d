// SPDX-License-Identifier: Apache-2.0

// What the tests in C of the simulator and of the loader share: cases and checks.
#ifndef CTEST_CHECK_H
#define CTEST_CHECK_H

#include <stddef.h>

// CASE defines a test, DEATH one that must abort with a message, TOOL something that the Go tests use as another process.
// All are registered before main.
enum { KIND_CASE, KIND_DEATH, KIND_TOOL };
struct test {
	const char *name, *message; // of the abort
	int kind;
	void (*run)(void);
	struct test *next;
};
extern struct test *tests;
extern const char *current_test; // its name, for failed
void register_test(struct test *);

#define CASE_(name, text, kind) \
	static void run_##name(void); \
	__attribute__((constructor)) static void register_##name(void) \
	{ \
		static struct test t = {#name, text, kind, run_##name, NULL}; \
		register_test(&t); \
	} \
	static void run_##name(void)
#define CASE(name) CASE_(name, "", KIND_CASE)
#define DEATH(name, text) CASE_(name, text, KIND_DEATH)
#define TOOL(name) CASE_(name, "", KIND_TOOL)

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

enum { PATIENCE_MS = 30000 };

// UNTIL waits for a condition that another thread or process brings about.
#define UNTIL(condition) \
	for (int ms_ = 0; !(condition); ms_++, usleep(1000)) \
	CHECK(ms_ < PATIENCE_MS)

#endif
