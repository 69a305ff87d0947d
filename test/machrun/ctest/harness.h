// SPDX-License-Identifier: Apache-2.0

// What the C tests share. Each test runs in a process of its own, so that descriptors, threads and switches of one do not
// reach the next.
#ifndef MACHRUN_HARNESS_H
#define MACHRUN_HARNESS_H

#include "check.h"
#include "control.h"
#include "darwin.h"
#include "shims.h"

#include <sys/stat.h>

// FAILS checks that a call returns -1 with an errno of macOS.
#define FAILS(error, call) \
	do { \
		*darwin_error() = 0; \
		long long got_ = (long long)(call); \
		if (got_ != -1 || *darwin_error() != (error)) \
			failed(__FILE__, __LINE__, "%s is %lld with errno %d, want -1 with %d", #call, got_, *darwin_error(), (int)(error)); \
	} while (0)

const char *directory(void); // one of the test's own, removed at its end

#endif
