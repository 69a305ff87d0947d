// SPDX-License-Identifier: Apache-2.0

// The control file, which a test in Go maps too: what calls shall do, and what they did.
#ifndef MACHRUN_CONTROL_H
#define MACHRUN_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define CONTROL_MAGIC "machrun-control"

struct control {
	char magic[16];
	_Atomic int64_t slow_execve_ms, slow_execve_skip; // execve waits so long first, but for so many calls
	_Atomic int64_t foreign_entries;                   // of threads that a library made into the program's code
	_Atomic int64_t killed_nobody;                     // pthread_kill without a living thread
};

extern struct control *the_control; // NULL without one; set before the program starts

// control_open maps dir/machrun.control, which the Go side made. NULL: there is none. It ends the process for a bad one.
void control_open(const char *dir);
void control_execve(void); // waits if it shall

#define COUNT(what) \
	do { \
		if (the_control != NULL) \
			atomic_fetch_add(&the_control->what, 1); \
	} while (0)

#endif
