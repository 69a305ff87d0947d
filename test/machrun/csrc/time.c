// SPDX-License-Identifier: Apache-2.0

// Clocks. On macOS mach_absolute_time, from which Go's runtime takes its own time, stands still while the machine sleeps, and
// CLOCK_MONOTONIC does not: clock_gettime(3), and xnu's osfmk/kern/clock.c. Here the machine does not sleep.
#include "darwin.h"

#include <time.h>

enum {
	D_REALTIME = 0, D_MONOTONIC_RAW = 4, D_MONOTONIC_RAW_APPROX = 5, D_MONOTONIC = 6, D_UPTIME_RAW = 8, D_UPTIME_RAW_APPROX = 9,
	D_PROCESS_CPUTIME = 12, D_THREAD_CPUTIME = 16,
};
uint64_t s_mach_absolute_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t s_mach_continuous_time(void) { return s_mach_absolute_time(); } // the machine has not slept

int s_mach_timebase_info(uint32_t *ratio) { return ratio[0] = ratio[1] = 1, 0; }

static int clock_in(int d)
{
	switch (d) {
	case D_REALTIME:
		return CLOCK_REALTIME;
	case D_MONOTONIC_RAW:
	case D_MONOTONIC_RAW_APPROX:
	case D_MONOTONIC:
	case D_UPTIME_RAW:
	case D_UPTIME_RAW_APPROX:
		return CLOCK_MONOTONIC;
	case D_PROCESS_CPUTIME:
		return CLOCK_PROCESS_CPUTIME_ID;
	case D_THREAD_CPUTIME:
		return CLOCK_THREAD_CPUTIME_ID;
	}
	return -1;
}

long s_clock_gettime(int id, struct d_timespec *d)
{
	struct timespec t;
	int clock = clock_in(id);
	if (clock < 0)
		return fail(D_EINVAL);
	if (clock_gettime(clock, &t) != 0)
		return ret(-1);
	*d = (struct d_timespec){t.tv_sec, t.tv_nsec};
	return 0;
}

