// SPDX-License-Identifier: Apache-2.0

// The control file: switches that are flipped while the program runs.
#ifndef MACHRUN_CONTROL_H
#define MACHRUN_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CONTROL_MAGIC "machrun-control"

// The numbers of the records.
enum {
#define CALL(f) FAIL_##f, SLOW_##f, STOP_##f,
#define SWITCH(name) SWITCH_##name,
#define GAUGE(name) GAUGE_##name,
#include "switches.h"
#undef CALL
#undef SWITCH
#undef GAUGE
	RECORDS
};

struct record {
	char name[40];
	_Atomic int64_t value;
	_Atomic int64_t count; // of calls that it applies to
	_Atomic int64_t skip;  // of calls before those
};

struct control {
	char magic[16];
	uint64_t records;
	uint8_t pad[40];
	struct record record[RECORDS];
};
_Static_assert(sizeof(struct record) == 64, "record");

extern struct control *the_control; // NULL without one; set before the program starts

// control_open maps dir/machrun.control, which the Go side made. NULL: there is none. It ends the process for a bad one.
void control_open(const char *dir);

int64_t switch_at(int record); // the value if it applies to this call, else 0; each look takes one of count
void gauge_add(int record, int64_t n);

// switch_value is switch_at for a switch by name.
int64_t switch_value(const char *name);

// call_error waits as slow. and stop. ask, and returns the errno of macOS that the call fails with, or 0. The records are
// the three from fail. on.
int call_error(int fail_record);

// control_received is called when a message with a descriptor has come, before the program knows: with fork_gap on, until
// some thread has made a process, or for so many milliseconds.
void control_received(int fd);

#endif
