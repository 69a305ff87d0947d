// SPDX-License-Identifier: Apache-2.0

// Clocks. mach_absolute_time stands still while the machine sleeps, CLOCK_MONOTONIC and the wall clock do not: clock_gettime(3)
// of macOS, and xnu's osfmk/kern/clock.c (mach_continuous_time). Go's runtime takes its own time from mach_absolute_time.
#include "control.h"
#include "darwin.h"

#include <time.h>

enum {
	D_REALTIME = 0, D_MONOTONIC_RAW = 4, D_MONOTONIC_RAW_APPROX = 5, D_MONOTONIC = 6, D_UPTIME_RAW = 8, D_UPTIME_RAW_APPROX = 9,
	D_PROCESS_CPUTIME = 12, D_THREAD_CPUTIME = 16,
};
enum { SECOND = 1000000000, MILLISECOND = 1000000 };

// asleep is how long the machine has slept since the program started: the switch asleep_ms, so it may grow and not shrink.
static int64_t asleep(void)
{
	return switch_at(SWITCH_asleep_ms) * MILLISECOND;
}

uint64_t s_mach_absolute_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

uint64_t s_mach_continuous_time(void) { return s_mach_absolute_time() + (uint64_t)asleep(); }

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
	int64_t slept = id <= D_MONOTONIC ? asleep() : 0;
	int64_t ns = t.tv_nsec + slept % SECOND;
	*d = (struct d_timespec){t.tv_sec + slept / SECOND + ns / SECOND, ns % SECOND};
	return 0;
}

long s_nanosleep(const struct timespec *t, struct timespec *left) { return ret(nanosleep(t, left)); }
long s_usleep(unsigned us) { return ret(usleep(us)); }
