// SPDX-License-Identifier: Apache-2.0

#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct test *tests;
static struct test **last = &tests;
const char *current_test = "";

void register_test(struct test *t)
{
	*last = t;
	last = &t->next;
}

void failed(const char *file, int line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("FAIL %s: %s:%d: ", current_test, file, line);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	_exit(1);
}
